import gc

from deploy.garbage import collection_paused, resume_collection


def test_nothing_is_collected_in_a_pause_and_what_it_made_is_exempt() -> None:
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_where_nothing_was_paused_nothing_becomes_exempt() -> None:
    resume_collection()
    assert gc.get_freeze_count() == 0
