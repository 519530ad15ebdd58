"""What the fake Graph API posts is what another client library reads, and that library's calls are what it takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import trio
from pywa import WhatsApp, types
from pywa.errors import WhatsAppError

from daycare_plugins.whatsapp_cloud.testing.server import TOKEN, FakeGraph, error

ANN = "4915112345678"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


class Redirected(httpx.HTTPTransport):
    """Sends to a fake what is meant for Meta."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self._base = httpx.URL(base_url)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host=self._base.host, port=self._base.port)
        request.headers["Host"] = f"{self._base.host}:{self._base.port}"
        return super().handle_request(request)


@contextmanager
def _client(graph: FakeGraph) -> Iterator[WhatsApp]:
    with httpx.Client(transport=Redirected(graph.base_url), trust_env=False) as session:
        yield WhatsApp(
            phone_id=graph.number_id,
            token=TOKEN,
            session=session,
            server=None,
            app_secret=graph.app_secret,
            filter_updates=False,
        )


async def _asks(call: Callable[[], Any]) -> Any:
    return await trio.to_thread.run_sync(call)


async def test_the_calls_of_another_client_are_what_the_fake_takes() -> None:
    async with FakeGraph.serve() as graph:
        with _client(graph) as client:
            graph.automatic = False
            hers = graph.say(ANN, "hi")["id"]
            texts = await _asks(lambda: client.send_message(to=ANN, text="hello", reply_to_message_id=hers))
            assert (texts.id, graph.sent(ANN)[-1].text) == (graph.sent(ANN)[-1].id, "hello")
            buttons = [types.Button(title="Yes", callback_data="1"), types.Button(title="No", callback_data="2")]
            await _asks(lambda: client.send_message(to=ANN, text="Tea?", buttons=buttons))
            assert graph.sent(ANN)[-1].buttons == [("1", "Yes"), ("2", "No")]
            rows = [types.SectionRow(title=str(number), callback_data=f"r{number}") for number in range(4)]
            choices = types.SectionList(button_title="Choose", sections=[types.Section(title="", rows=rows)])
            await _asks(lambda: client.send_message(to=ANN, text="Which?", buttons=choices))
            assert [label for _, label in graph.sent(ANN)[-1].buttons] == ["0", "1", "2", "3"]
            await _asks(lambda: client.send_image(to=ANN, image=PNG, mime_type="image/png", caption="look"))
            assert graph.sent(ANN)[-1].kind == "image"
            await _asks(lambda: client.send_reaction(to=ANN, emoji="\U0001f44d", message_id=hers))
            await _asks(lambda: client.mark_message_as_read(message_id=hers))
            await _asks(lambda: client.indicate_typing(message_id=hers))


async def test_another_client_reads_the_errors_of_the_fake() -> None:
    async with FakeGraph.serve() as graph:
        with _client(graph) as client:
            graph.automatic = False
            graph.say(ANN, "hi")
            for code in (131056, 130429, 131026, 131047):
                graph.fault("messages", error(code))
                assert await _asks(lambda: _refused(client, "x")) == code
            assert await _asks(lambda: _refused(client, "x" * 5_000)) == 100


def _refused(client: WhatsApp, text: str) -> int:
    try:  # in the thread that asked: its errors cannot be raised in a second place
        client.send_message(to=ANN, text=text)
    except WhatsAppError as refused:
        return int(refused.code)
    return 0


async def test_another_client_reads_what_people_do() -> None:
    async with FakeGraph.serve() as graph:
        with _client(graph) as client:
            graph.automatic = False
            heard: list[Any] = []
            for listen in (
                client.on_message,
                client.on_callback_button,
                client.on_callback_selection,
                client.on_message_status,
            ):
                listen()(lambda _client, update: heard.append(update))
            file = graph.file("image/png", PNG)
            graph.say(ANN, "hi", forwarded=True)
            graph.send(ANN, "image", {"caption": "look", **file})
            graph.send(ANN, "location", {"latitude": 1.5, "longitude": 2.5, "name": "Bern"})
            graph.send(ANN, "reaction", {"message_id": graph.wamid(), "emoji": "\U0001f44d"})
            await _asks(
                lambda: client.send_message(to=ANN, text="Tea?", buttons=[types.Button(title="Yes", callback_data="1")])
            )
            graph.press(ANN, graph.sent(ANN)[-1], "Yes")
            graph.post(statuses=[graph.status(graph.sent(ANN)[-1], "read")])
            bodies = list(graph.queue)
            for body in bodies:
                assert client.webhook_update_validator(body, graph.signed(body)) is None
                assert client.webhook_update_validator(body, graph.signed(body, "another secret")) is not None
                client.webhook_update_handler(body)
            said, picture, place, reaction = (update for update in heard if isinstance(update, types.Message))
            [pressed] = (update for update in heard if isinstance(update, types.CallbackButton))
            states = [update.status for update in heard if isinstance(update, types.MessageStatus)]
            assert (said.text, said.from_user.wa_id, said.forwarded) == ("hi", ANN, True)
            assert (picture.caption, picture.image.mime_type) == ("look", "image/png")
            assert (place.location.latitude, place.location.name) == (1.5, "Bern")
            assert reaction.reaction.emoji == "\U0001f44d"
            assert (pressed.data, pressed.title) == ("1", "Yes")
            assert states[-1] == "read"
            assert {update.from_user.bsuid for update in heard} == {f"DE.{ANN}"}
