"""No file reads as translated, and no page for users is longer than one sitting."""

from tools.plain_words import files, long_pages, places_of


def test_no_phrase_that_reads_as_translated_is_left() -> None:
    assert [(path, place) for path in files() for place in places_of(path.read_text(encoding="utf-8"))] == []


def test_a_phrase_is_found_with_its_line() -> None:
    assert places_of("fine\nusers are told of it\nit is no file\n") == [(2, "are told"), (3, "it is no")]
    assert places_of("it is no longer there; there is no file") == []


def test_no_page_for_users_is_longer_than_1500_words() -> None:
    assert long_pages() == {}
