"""Use of the editor of manifests on a page."""

from playwright.sync_api import Page, expect


def write(page: Page, text: str) -> None:
    """Replaces the whole text of the editor, as by pasting."""
    expect(page.locator(".cm-editor")).to_be_visible()
    editor = page.get_by_role("textbox", name="Manifest")
    editor.focus()
    # The completion has loaded.
    expect(editor).to_have_attribute("aria-autocomplete", "list")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    expect(page.locator("textarea[name=text]")).to_have_value(text)


def written(page: Page) -> str:
    """Returns the text that the form would send, once the editor is there."""
    expect(page.locator(".cm-editor")).to_be_visible()
    return page.locator("textarea[name=text]").input_value()
