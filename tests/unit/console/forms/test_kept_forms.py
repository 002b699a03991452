import pytest

from console.forms import kept_forms
from console.forms.kept_forms import KeptForms, refilled

PAGE = "/keys/new"
FORM = """<form method="post" action="/keys">
<input type="hidden" name="csrf" value="fresh"><input type="hidden" name="form_hash" value="new">
<input id="a" name="name" type="text" value="">
<input type="password" name="key" value="">
<textarea name="about" rows="2">
</textarea>
<select name="hour"><option value="" selected>any</option><option value="8">08:00</option></select>
<input type="checkbox" name="scopes" value="one" checked><input type="checkbox" name="scopes" value="two">
</form>
<form method="post" action="/other"><input name="name" value="left"></form>"""
SENT = {
    "csrf": ["old"],
    "form_hash": ["old"],
    "name": ['<b>"&amp;'],
    "key": ["typed"],
    "about": ["a\nb</textarea>"],
    "hour": ["8"],
    "scopes": ["two"],
    "upload": ["upl_1"],
}


def kept(form: dict[str, list[str]] | None = None, owner: str = "ana") -> kept_forms.KeptForm | None:
    forms = KeptForms()
    return forms.take(forms.keep("ana", PAGE, "/keys", form or SENT), owner, PAGE)


def test_a_page_is_filled_with_the_fields_of_its_form_alone() -> None:
    found = kept()
    assert found is not None
    assert (
        refilled(FORM, found)
        == """<form method="post" action="/keys">
<input type="hidden" name="csrf" value="fresh"><input type="hidden" name="form_hash" value="old">
<input id="a" name="name" type="text" value="&lt;b&gt;&quot;&amp;amp;">
<input type="password" name="key" value="">
<textarea name="about" rows="2">
a
b&lt;/textarea&gt;</textarea>
<select name="hour"><option value="">any</option><option value="8" selected>08:00</option></select>
<input type="checkbox" name="scopes" value="one"><input type="checkbox" name="scopes" value="two" checked>
</form>
<form method="post" action="/other"><input name="name" value="left"></form>"""
    )


@pytest.mark.parametrize("name", ["csrf", "upload", "password", "new_password", "client_secret", "Token", "run_id"])
def test_neither_tokens_nor_secrets_nor_files_nor_runs_of_the_page_are_kept(name: str) -> None:
    found = kept({name: ["hidden"], "name": ["shown"]})
    assert found is not None
    assert found.fields == {"name": ["shown"]}


def test_a_form_is_given_once_and_to_its_sender_alone() -> None:
    assert kept(owner="bo") is None
    forms = KeptForms()
    name = forms.keep("ana", PAGE, "/keys", SENT)
    assert forms.take(name, "ana", "/") is None
    assert forms.take(name, "ana", PAGE) is not None
    assert forms.take(name, "ana", PAGE) is None


def test_few_forms_of_bounded_size_are_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = KeptForms()
    assert not forms.keep("ana", PAGE, "/keys", {"about": ["x" * 262_145]})
    first, *_, last = [forms.keep("ana", PAGE, "/keys", SENT) for _ in range(33)]
    assert forms.take(first, "ana", PAGE) is None
    monkeypatch.setattr(kept_forms, "SECONDS", 0)
    assert forms.take(last, "ana", PAGE) is not None
    assert forms.take(forms.keep("ana", PAGE, "/keys", SENT), "ana", PAGE) is None
