"""History and prompts over the network: all of it for the operator, their own for a person."""

from typing import Any

from tests.network.conftest import Network


def said(network: Network, *texts: str) -> list[int]:
    """Let Ann say something, and wait for each answer; return the numbers of the messages."""
    seqs = []
    for text in texts:
        wish: dict[str, Any] = {"text": text, "wait_s": 30}
        receipt = network.locally("POST", "/v1/messages", wish)
        assert receipt["result"], receipt
        seqs.append(receipt["seq"])
    return seqs


def test_history_is_paged_over_all_sessions(network: Network) -> None:
    one, two, _, three = said(network, "one", "two", "/reset", "three")
    page = network.call("operator", "GET", "/v1/history", path="/ann/direct", limit=2).json()
    texts = [turn["messages"][0]["parts"][0]["text"] for turn in page["turns"]]
    assert texts[0] == "three"
    older = network.call("operator", "GET", "/v1/history", path="/ann/direct", before=page["next"]).json()
    assert older["next"] is None
    turns = [*page["turns"], *older["turns"]]
    assert [turn["seqs"] for turn in turns] == [[three], [two], [one]]
    assert [turn["turn"] for turn in turns] == sorted((turn["turn"] for turn in turns), reverse=True)
    assert {turn["session"] for turn in turns} == {1, 2}
    ends = {each["session"]: each.get("ended_at") for each in (*page["sessions"], *older["sessions"])}
    assert ends[1] is not None and ends[2] is None
    assert turns[-1]["messages"][0]["parts"][0]["text"] == "one"


def test_a_message_takes_the_place_of_the_last_turn_and_history_shows_both(network: Network) -> None:
    def turns() -> dict[str, Any]:
        page = network.call("ann", "GET", "/v1/history", path="/ann/direct").json()
        return {turn["messages"][0]["parts"][0]["text"]: turn for turn in page["turns"]}

    def prompted(turn: int) -> Any:
        shown = network.call("ann", "GET", f"/v1/turns/{turn}/prompt").json()
        assert shown["exact"], shown["changed"]
        return [each["messages"][0]["parts"][0]["text"].partition("] ")[2] for each in shown["conversation"]]

    said(network, "one", "two")
    one, two = turns()["one"]["turn"], turns()["two"]["turn"]
    early = {"text": "uno", "path": "/ann/direct", "instead": one, "wait_s": 30}
    assert network.call("ann", "POST", "/v1/messages", early).json()["error"]["code"] == "TURN_NOT_LAST"
    for text, last in (("deux", two), ("dos", None)):
        last = last or turns()["deux"]["turn"]
        wish = early | {"text": text, "instead": last, "key": f"again-{text}"}
        receipts = [network.call("ann", "POST", "/v1/messages", wish).json() for _ in range(2)]
        assert [each["state"] for each in receipts] == ["done", "done"], receipts
        assert receipts[1]["duplicate"] and receipts[0]["seq"] == receipts[1]["seq"]
    said(network, "three")
    found = turns()
    by = {text: turn.get("replaced_by") for text, turn in found.items()}
    assert by == {"one": None, "two": found["deux"]["turn"], "deux": found["dos"]["turn"], "dos": None, "three": None}
    assert prompted(found["three"]["turn"]) == ["one", "dos", "three"]
    assert prompted(found["deux"]["turn"]) == ["one", "deux"]
    assert prompted(two) == ["one", "two"]


def test_a_person_keeps_and_reads_files_of_their_own(network: Network) -> None:
    file = network.call("bob", "POST", "/v1/files", name="a.png").json()
    mine = {"text": "look", "files": [file["id"]], "wait_s": 20}
    assert network.call("bob", "POST", "/v1/messages", mine).status_code == 200
    found = network.call("bob", "GET", f"/v1/files/{file['id']}")
    assert (found.status_code, found.headers["content-type"]) == (200, "image/png")
    assert found.headers["x-content-type-options"] == "nosniff"
    network.add("narrow", user="bob", paths="/bob/agent/scribe/**")
    for who, user in (("ann", "bob"), ("ann", "ann"), ("narrow", "bob")):
        assert network.call(who, "GET", f"/v1/files/{file['id']}", user=user).status_code == 404
    assert network.call("ann", "POST", "/v1/files", name="b.txt", user="bob").status_code == 404
    assert network.call("narrow", "POST", "/v1/files", name="b.txt").status_code == 404


def test_a_person_reads_their_own_and_nothing_of_others(network: Network) -> None:
    said(network, "the secret of ann")
    [turn] = network.call("ann", "GET", "/v1/history", path="/ann/direct").json()["turns"]
    number, trace = turn["turn"], turn["trace"]
    shown = network.call("ann", "GET", f"/v1/turns/{number}/prompt").json()
    assert shown["exact"] and "the secret of ann" in str(shown["conversation"])
    assert network.call("ann", "GET", f"/v1/trace/{trace}").json()["entries"]
    for route in ("/v1/history?path=/ann/direct", f"/v1/turns/{number}/prompt", f"/v1/trace/{trace}"):
        answer = network.call("bob", "GET", route)
        assert answer.status_code == 404 and "secret" not in answer.text
    unknown = network.call("bob", "GET", "/v1/turns/999999/prompt").json()["error"]
    others = network.call("bob", "GET", f"/v1/turns/{number}/prompt").json()["error"]
    assert unknown["code"] == others["code"] and unknown["hint"] == others["hint"]


def test_the_commands_show_what_the_routes_say(network: Network) -> None:
    from tests import program

    said(network, "good morning")
    env = {"DAYCARE_HOME": str(network.home)}
    told = program.call(["history", "/ann/direct"], env=env, deadline_s=60)
    assert "user: good morning" in told.stdout and "--- session 1" in told.stdout, told.stderr
    number = told.stdout.split("turn ", 1)[1].split(",", 1)[0]
    shown = program.call(["prompt", number], env=env, deadline_s=60)
    assert "This is what was sent, byte for byte." in shown.stdout, shown.stderr
    assert "=== base:" in shown.stdout and "good morning" in shown.stdout


def test_turns_that_stand_alone_are_no_part_of_it(network: Network) -> None:
    network.call("bob", "POST", "/v1/messages", {"text": "my cat is Miso", "wait_s": 20})
    wish = {"model": "daycare", "messages": [{"role": "user", "content": "write a title"}]}
    assert network.call("bob", "POST", "/openai/v1/chat/completions", wish).status_code == 200
    page = network.call("bob", "GET", "/v1/history", path="/bob/direct").json()
    assert [(turn["session"], turn["messages"][0]["parts"][0]["text"]) for turn in page["turns"]] == [
        (1, "my cat is Miso")
    ]
    assert [each["session"] for each in page["sessions"]] == [1]
