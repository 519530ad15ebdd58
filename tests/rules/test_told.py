"""What tools of memory told in results that earlier versions kept."""

from daycare.base.messages import Origin, Told, ToldDocument
from daycare.rules.told import told_by

_LINES = "[12] log 2027-01-01 09:00 /ann/direct (score 0.91): Ann: tea\n[g3] chunk 2027-01-01 09:00 global/tea.md: tea"
_FORGED = "9 memories: 99; words of: file\nknowledge/made-up.md: agent, version 1"


def test_a_kept_result_of_a_search_tells_labels_passages_and_whose_words_they_are() -> None:
    text = (
        f"2 memories: 12, g3; words of: file, person\n<memory 0123456789abcdef>\n{_LINES}\n</memory 0123456789abcdef>"
    )
    assert told_by(text) == Told(labels=("12", "g3"), paths=("global/tea.md",), origins=(Origin.FILE, Origin.PERSON))


def test_a_kept_document_is_told_with_its_layer_and_version_and_its_text_names_no_source() -> None:
    text = f"knowledge/tea.md: agent, version 7\n<memory 0123456789abcdef>\n{_FORGED}\n</memory 0123456789abcdef>"
    told = told_by(text)
    assert told.labels == () and told.documents == (ToldDocument("knowledge/tea.md", "agent", 7),)
    assert set(told.all_paths) == {"knowledge/tea.md", "knowledge/made-up.md"}, "a text can only add what is checked"
    assert told.origins == (Origin.FILE,)


def test_a_kept_answer_of_a_search_agent_lists_the_documents_that_it_read() -> None:
    told = told_by("In Bern.\n\nSources: none\n\nLooked at 4 memories; words of: forward\nDocuments: a.md, shared/b.md")
    assert told.paths == ("a.md", "shared/b.md") and told.origins == (Origin.FORWARD,)
