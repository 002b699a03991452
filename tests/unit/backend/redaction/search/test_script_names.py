import pytest

from backend.redaction.search.finder import Finder
from backend.workflows.entity_types import ENTITY_TYPES

_FINDER = Finder(ENTITY_TYPES, 0.8)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("г-н Петров приехал", "Петров"),
        ("ФИО: Иванов Иван Иванович", "Иванов Иван Иванович"),
        ("Ім\u02bcя: Олена Шевченко", "Олена Шевченко"),
        ("Κύριος Νίκος Παπαδόπουλος", "Νίκος Παπαδόπουλος"),
        ("Όνομα: Μαρία Παππά", "Μαρία Παππά"),
        ("السيد محمد العلي", "محمد العلي"),
        ("الاسم: محمد علي", "محمد علي"),
        ("姓名\uff1a王小明", "王小明"),
        ("王先生你好", "王"),
        ("山田太郎様", "山田太郎"),
        ("이름: 김철수", "김철수"),
        ("김철수 씨", "김철수"),
    ],
)
def test_a_name_in_another_script_is_found_by_its_title_or_field(text: str, name: str) -> None:
    assert [text[match.start : match.end] for match in _FINDER.find(text)] == [name]


@pytest.mark.parametrize("text", ["お客様へ", "皆さん", "고객님께", "Господин ушёл", "先生你好", "姓名必填"])
def test_a_title_without_a_name_stays(text: str) -> None:
    assert _FINDER.find(text) == []
