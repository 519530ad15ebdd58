"""The fake Telegram server: its protocol, its queue of updates, and the real client against it."""

from functools import partial

import httpx
import telegram
import trio
import trio.testing

from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.fake_client import bot_of, call, done, refusal

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def test_the_real_client_talks_to_it() -> None:
    async with FakeTelegram.serve() as server, bot_of(server) as bot:
        ann = server.person(5, first_name="Ann", language_code="de")
        me = await bot.get_me()
        assert (me.id, me.username) == (int(server.token.split(":")[0]), "fake_bot")
        server.say(ann, ann, "hello 👋 @fake_bot")
        (update,) = await bot.get_updates(timeout=5)
        assert update.message is not None and update.message.from_user is not None
        assert update.message.text == "hello 👋 @fake_bot"
        assert update.message.parse_entities() == {update.message.entities[0]: "@fake_bot"}
        assert update.message.from_user.language_code == "de"
        sent = await bot.send_message(
            5,
            "*bold* and `code`",
            parse_mode="MarkdownV2",
            reply_parameters=telegram.ReplyParameters(update.message.message_id),
            disable_notification=True,
            reply_markup=telegram.InlineKeyboardMarkup([[telegram.InlineKeyboardButton("Yes", callback_data="y")]]),
        )
        stored = server.sent(5)[0]
        assert (sent.text, sent.message_id) == (stored.text, stored.id) == ("bold and code", stored.id)
        assert [entity.type for entity in sent.entities] == ["bold", "code"]
        assert stored.reply_to == update.message.message_id and stored.silent
        edited = await bot.edit_message_text("better", 5, sent.message_id)
        assert isinstance(edited, telegram.Message) and edited.text == "better" and edited.edit_date
        assert stored.edits == ["bold and code"] and stored.keyboard == []
        assert await bot.delete_message(5, sent.message_id)
        assert stored.deleted and server.sent(5) == []
        assert await bot.send_chat_action(5, "typing") and server.actions[0].action == "typing"
        assert await bot.send_message_draft(5, 7, "partial") and server.drafts[0].text == "partial"
        assert await bot.set_message_reaction(5, update.message.message_id, "👀")
        assert server.reactions[0].emoji == ["👀"]
        assert await bot.set_my_commands([("help", "Show help")]) and list(server.commands) == ["default"]
        assert [command.command for command in await bot.get_my_commands()] == ["help"]
        assert await bot.delete_my_commands() and not await bot.get_my_commands()
        assert (await bot.get_chat(5)).first_name == "Ann"


async def test_files_travel_both_ways_in_the_real_clients_encoding() -> None:
    async with FakeTelegram.serve() as server, bot_of(server) as bot:
        ann = server.person(5)
        server.photo(ann, ann, PNG, caption="look", width=800, height=600)
        (update,) = await bot.get_updates()
        assert update.message is not None
        largest = update.message.photo[-1]
        assert [size.width for size in update.message.photo] == [90, 320, 800]
        assert await (await bot.get_file(largest.file_id)).download_as_bytearray() == PNG
        shown = await bot.send_photo(5, PNG, caption="_x_", parse_mode="HTML")
        assert shown.caption == "_x_" and await _content(bot, shown.photo[-1].file_id) == PNG
        again = await bot.send_photo(5, shown.photo[-1].file_id)
        assert again.photo[-1].file_id == shown.photo[-1].file_id
        document = (await bot.send_document(5, b"a,b\r\n--x", filename="t\u00e4.csv", caption="table")).document
        assert document is not None and (document.file_name, document.file_size) == ("t\u00e4.csv", 8)
        assert await _content(bot, document.file_id) == b"a,b\r\n--x"
        voice = (await bot.send_voice(5, b"OggS" + bytes(20), duration=3)).voice
        assert voice is not None and voice.to_dict()["duration"] == 3
        audio = (await bot.send_audio(5, b"ID3", title="Song", performer="Band")).audio
        assert audio is not None and audio.title == "Song"
        video = (await bot.send_video(5, b"mp4", width=10, height=20)).video
        assert video is not None and (video.width, video.height) == (10, 20)
        album = await bot.send_media_group(
            5, [telegram.InputMediaPhoto(PNG, caption="both"), telegram.InputMediaPhoto(shown.photo[-1].file_id)]
        )
        assert len({message.media_group_id for message in album}) == 1 and album[0].caption == "both"
        assert [message.kind for message in server.sent(5)] == [
            *("photo", "photo", "document", "voice", "audio", "video", "photo", "photo")
        ]
        assert [call.status for call in server.called("download")] == [200] * 3


async def _content(bot: telegram.Bot, file_id: str) -> bytes:
    return bytes(await (await bot.get_file(file_id)).download_as_bytearray())


async def test_parameters_come_as_json_as_a_form_or_in_the_url() -> None:
    async with FakeTelegram.serve() as server, httpx.AsyncClient(trust_env=False, verify=False) as client:
        server.person(5)
        url = f"{server.base_url}{server.token}/sendMessage"
        keyboard = '{"inline_keyboard":[[{"text":"a","callback_data":"b"}]]}'
        fields = {"chat_id": "5", "text": "ä & b", "reply_markup": keyboard, "disable_notification": "true"}
        answers = [
            await client.get(url, params=fields),
            await client.post(url, data=fields),
            await client.post(url, files={name: (None, value) for name, value in fields.items()}),
            await client.post(url, json={**fields, "chat_id": 5, "disable_notification": True}),
            await client.post(url.lower().replace(server.token.lower(), server.token), data=fields),
        ]
        assert [answer.status_code for answer in answers] == [200] * 5
        assert {(note.text, len(note.keyboard), note.silent) for note in server.sent(5)} == {("ä & b", 1, True)}
        for broken in (
            await client.post(url, content=b"{", headers={"Content-Type": "application/json"}),
            await client.post(url, content=b"x", headers={"Content-Type": "text/plain"}),
            await client.post(url, content=b"--x\r\n", headers={"Content-Type": "multipart/form-data; boundary=x"}),
        ):
            assert broken.status_code == 400 and not broken.json()["ok"]


async def test_wrong_tokens_methods_and_paths_have_their_own_answers() -> None:
    async with FakeTelegram.serve() as server, httpx.AsyncClient(trust_env=False, verify=False) as client:
        root = server.base_url.removesuffix("/bot")
        wanted = {
            f"/bot{server.token}/flyAway": (404, "Not Found: method not found"),
            "/bot123:wrong/getMe": (401, "Unauthorized"),
            "/botnonsense/getMe": (401, "Unauthorized: invalid token specified"),
            "/bot012:wrong/getMe": (401, "Unauthorized: invalid token specified"),
            f"/bot123:{'x' * 80}/getMe": (401, "Unauthorized: invalid token specified"),
            "/": (404, "Not Found"),
            f"/file/bot{server.token}/photos/file_9.jpg": (404, "Not Found"),
            "/file/bot123:wrong/x": (401, "Unauthorized"),
            "/control/state": (404, "Not Found"),
        }
        for path, expected in wanted.items():
            answer = await client.post(root + path)
            assert (answer.status_code, answer.json()["description"]) == expected, path
        assert not server.called("getMe")


async def test_an_offset_confirms_for_ever() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        for number in range(5):
            server.say(ann, ann, str(number))
        first = await done(server, "getUpdates", limit=2)
        assert [update["message"]["text"] for update in first] == ["0", "1"]
        server.queue.forgive()
        assert await done(server, "getUpdates", limit=2) == first
        rest = await done(server, "getUpdates", offset=first[1]["update_id"] + 1)
        assert [update["message"]["text"] for update in rest] == ["2", "3", "4"]
        assert await done(server, "getUpdates", offset=0) == rest
        assert await done(server, "getUpdates", offset=-1) == rest[-1:]
        assert await done(server, "getUpdates") == rest[-1:]
        assert await done(server, "getUpdates", offset=rest[-1]["update_id"] + 1) == []
        assert server.confirmed == rest[-1]["update_id"] + 1
        server.redeliver(2)
        server.queue.forgive()
        assert await done(server, "getUpdates", offset=server.confirmed) == rest[-2:]
        server.queue.forgive()
        assert await done(server, "getUpdates", offset=server.confirmed) == []


async def test_ids_that_start_anew_are_not_confirmed_by_an_old_offset() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        server.say(ann, ann, "old")
        server.next_update_id = 100
        server.say(ann, ann, "new")
        (old,) = await done(server, "getUpdates")
        (new,) = await done(server, "getUpdates", offset=old["update_id"] + 1)
        assert (new["update_id"], new["message"]["text"]) == (100, "new")
        assert await done(server, "getUpdates", offset=old["update_id"] + 1) == [new]  # the answer was lost
        assert await done(server, "getUpdates", offset=101) == []
        server.next_update_id = 95
        server.say(ann, ann, "too near")
        assert await done(server, "getUpdates", offset=101) == []  # as the real queue: within ten it counts


async def test_a_poll_waits_for_an_update_and_ends_in_time(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    ann = server.person(5)
    async with trio.open_nursery() as nursery:
        mine, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(server.serve_stream, theirs)
        body = '{"timeout":30}'
        request = f"POST /bot{server.token}/getUpdates HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        ask = f"{request}Content-Length: {len(body)}\r\n\r\n{body}".encode()
        start = trio.current_time()
        await mine.send_all(ask)
        assert b'"result":[]' in await mine.receive_some()
        assert trio.current_time() - start == 30
        await mine.send_all(ask)
        await trio.sleep(7)
        server.say(ann, ann, "at last")
        assert b"at last" in await mine.receive_some()
        assert trio.current_time() - start == 37
        await mine.aclose()


async def test_the_second_poll_ends_the_first_with_a_conflict() -> None:
    async with FakeTelegram.serve() as server, trio.open_nursery() as nursery:
        ann = server.person(5)
        ended: list[str] = []

        async def poll() -> None:
            answer = await call(server, "getUpdates", timeout=50)
            ended.append(answer.get("description") or answer["result"][0]["message"]["text"])

        nursery.start_soon(poll)
        while not server.called("getUpdates"):
            await trio.sleep(0.005)
        nursery.start_soon(poll)
        while not ended:
            await trio.sleep(0.005)
        server.say(ann, ann, "for the second")
        while len(ended) < 2:
            await trio.sleep(0.005)
        conflict = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
        assert ended == [conflict, "for the second"]


async def test_a_poll_whose_client_left_conflicts_with_nobody() -> None:
    async with FakeTelegram.serve() as server:
        async with trio.open_nursery() as client:
            client.start_soon(partial(call, server, "getUpdates", timeout=50))
            while server.queue._poller is None:
                await trio.sleep(0.005)
            client.cancel_scope.cancel()
        with trio.fail_after(5):
            while server.queue._poller is not None:
                await trio.sleep(0.005)
        assert [poll.status for poll in server.called("getUpdates")] == [0]


async def test_allowed_updates_choose_what_is_made_and_stay_chosen() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        message = server.say(ann, ann, "one")
        server.react(message, ann, "👍")  # not by default
        assert len(await done(server, "getUpdates", offset=1)) == 1
        await done(server, "getUpdates", offset=-1, allowed_updates=["message_reaction", "no such kind"])
        server.say(ann, ann, "two")
        server.react(message, ann, "🔥", before=["👍"])
        updates = await done(server, "getUpdates", offset=server.next_update_id - 1)
        (reaction,) = (telegram.Update.de_json(update, None) for update in updates)
        assert reaction.message_reaction is not None
        assert reaction.message_reaction.new_reaction == (telegram.ReactionTypeEmoji("🔥"),)
        await done(server, "getUpdates", offset=server.next_update_id, allowed_updates=[])
        server.say(ann, ann, "three")
        assert len(await done(server, "getUpdates")) == 1


async def test_malformed_updates_go_out_as_they_stand() -> None:
    async with FakeTelegram.serve() as server, httpx.AsyncClient(trust_env=False, verify=False) as client:
        ann = server.person(5)
        number = server.raw_update({"message": {"message_id": "no number"}})
        server.raw_update({"update_id": 1, "unheard_of": {}})
        server.say(ann, ann, "fine")
        updates = await done(server, "getUpdates")
        assert updates[0] == {"update_id": number, "message": {"message_id": "no number"}}
        assert updates[1] == {"update_id": 1, "unheard_of": {}}
        assert len(await done(server, "getUpdates", offset=number + 2)) == 1
        server.raw_update(b'{"update_id":7,"message":')
        answer = await client.get(f"{server.base_url}{server.token}/getUpdates")
        assert answer.content.endswith(b',{"update_id":7,"message":]}')


async def test_a_webhook_gets_updates_with_its_secret_and_excludes_polling() -> None:
    got: list[bytes] = []

    async def endpoint(stream: trio.SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request or not request.endswith(b"}"):
                request += await stream.receive_some()
            got.append(request)
            status = b"500 Oops" if b"bad" in request else b"200 OK"
            await stream.send_all(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")

    async with FakeTelegram.serve() as server, trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, endpoint, listeners)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/hook/7"
        for wrong, said in (
            ({"url": "http://example.com/"}, "HTTPS"),
            ({"url": url, "secret_token": "no spaces"}, "unallowed"),
            ({"url": url, "secret_token": "x" * 257}, "too long"),
        ):
            assert said in await refusal(server, "setWebhook", **wrong)
            server.webhook_settable_at = 0.0
        assert await done(server, "setWebhook", url=url, secret_token="s3cret")
        assert "webhook is active" in await refusal(server, "getUpdates")
        ann = server.person(5)
        for text in ("one", "two", "bad", "last"):
            server.say(ann, ann, text)
        assert await server.deliver_webhook() == 2
        assert [b"X-Telegram-Bot-Api-Secret-Token: s3cret" in request for request in got] == [True] * 3
        assert got[0].startswith(b"POST /hook/7 HTTP/1.1\r\n")
        info = telegram.WebhookInfo.de_json(await done(server, "getWebhookInfo"), None)
        assert (info.url, info.pending_update_count) == (url, 2) and info.last_error_message
        assert await done(server, "deleteWebhook", drop_pending_updates=True)
        assert await done(server, "getUpdates") == []
        nursery.cancel_scope.cancel()


async def test_ten_thousand_updates_pass_in_seconds() -> None:
    async with FakeTelegram.serve() as server:
        ann = server.person(5)
        for number in range(10_000):
            server.say(ann, ann, str(number))
        got: list[str] = []
        offset = 0
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            url = f"{server.base_url}{server.token}/getUpdates"
            with trio.fail_after(20):
                while updates := (await client.post(url, json={"offset": offset})).json()["result"]:
                    got += [update["message"]["text"] for update in updates]
                    offset = updates[-1]["update_id"] + 1
        assert got == [str(number) for number in range(10_000)]
