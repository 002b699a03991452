import tracemalloc

from contract.json_codec.json_scan import named_twice_at


def test_names_with_escapes_take_little_more_memory_than_their_text() -> None:
    body = b"{" + b",".join(rb'"\u0030%d":1' % number for number in range(5_000)) + b"}"
    tracemalloc.start()
    try:
        assert named_twice_at(body) is None
        assert tracemalloc.get_traced_memory()[1] < 20 * len(body)
    finally:
        tracemalloc.stop()


def test_a_name_is_the_same_with_and_without_escapes() -> None:
    assert named_twice_at(rb'{"a\"":1,"\u0061\u0022":2}') == 9
    assert named_twice_at(rb'{"a":1,"\u0061":2}') == 7
    assert named_twice_at(rb'{"a":1,"\"a\"":2,"\\a":3}') is None
