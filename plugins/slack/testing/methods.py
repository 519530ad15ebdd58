"""The methods of Slack's Web API, as far as the plugin calls them, over a `SlackWorld`."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from daycare.testing.http_server import Params
from daycare_plugins.slack.testing.rules import (
    STREAM_MAX_CHARS,
    SlackRefusedError,
    blocks_in,
    check_characters,
    check_text,
    metadata_in,
)
from daycare_plugins.slack.testing.world import BOT, TEAM, FakeChannel, FakeSlackFile, Message, SlackWorld

Answer = dict[str, Any]
PAGE_MAX: Final = 1_000


class SlackMethods(SlackWorld):
    """Answers calls that were checked already. A refusal is a `SlackRefusedError`."""

    origin: str
    list_page = 200  # channels in one answer at most, as Slack gives fewer than asked for

    def methods(self) -> dict[str, Callable[[Params], Answer]]:
        """Return what answers each method."""
        return {
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.startStream": self._start,
            "chat.appendStream": self._append,
            "chat.stopStream": self._stop,
            "assistant.threads.setStatus": self._status,
            "conversations.list": self._list,
            "conversations.info": self._info,
            "conversations.open": self._open,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "users.info": self._user,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "reactions.get": self._reactions,
            "files.getUploadURLExternal": self._upload,
            "files.completeUploadExternal": self._complete,
            "files.info": self._file,
            "files.delete": self._forget,
        }

    def about_file(self, number: str) -> dict[str, Any]:
        """Return what Slack says of a file."""
        file = self.files[number]
        url = f"{self.origin}/files/{number}"
        return {"id": number, "name": file.name, "mimetype": file.media_type, "size": len(file.content),
                "filetype": file.name.rpartition(".")[2], "mode": "hosted", "url_private": url,
                "url_private_download": url} | ({"subtype": file.subtype} if file.subtype else {})  # fmt: skip

    # -- messages ----------------------------------------------------------------------------------------------------

    def _post(self, params: Params) -> Answer:
        place = self._place(params.text("channel"))
        text, blocks = params.text("text"), blocks_in(params)
        check_text(text)
        if not text.strip() and not blocks:
            raise SlackRefusedError("no_text")
        metadata = metadata_in(params)
        message = self._new(place, params.text("thread_ts"), text) | {"blocks": blocks}
        if metadata is not None:
            message["metadata"] = metadata
        place.messages[message["ts"]] = message
        if self.echoes:
            self.event(self._in(place, message))
        return {"channel": place.id, "ts": message["ts"], "message": message}

    def _new(self, place: FakeChannel, thread: str, text: str) -> Message:
        if thread and thread not in place.messages:
            raise SlackRefusedError("thread_not_found")
        found: Message = {"type": "message", "user": BOT, "bot_id": "B0BOT", "text": text, "ts": self.ts()}
        return found | ({"thread_ts": thread} if thread else {})

    def _update(self, params: Params) -> Answer:
        place = self._place(params.text("channel"))
        message = self._mine(place, params.text("ts"), "cant_update_message")
        text, blocks = params.text("text"), blocks_in(params)
        check_text(text)
        if not text.strip() and not blocks:
            raise SlackRefusedError("no_text")
        message |= {"text": text, "blocks": blocks}
        return {"channel": place.id, "ts": message["ts"], "text": text}

    def _delete(self, params: Params) -> Answer:
        place = self._place(params.text("channel"))
        message = self._mine(place, params.text("ts"), "cant_delete_message")
        del place.messages[message["ts"]]
        return {"channel": place.id, "ts": message["ts"]}

    def _mine(self, place: FakeChannel, ts: str, refusal: str) -> Message:
        message = place.messages.get(ts)
        if message is None:
            raise SlackRefusedError("message_not_found")
        if message["user"] != BOT:
            raise SlackRefusedError(refusal)
        if self.streams.get((place.id, ts)):
            raise SlackRefusedError("streaming_state_conflict")
        return message

    # -- streams and statuses ----------------------------------------------------------------------------------------

    def _start(self, params: Params) -> Answer:
        place, thread = self._place(params.text("channel")), params.text("thread_ts")
        text = self._streamed(params)
        if not thread:
            raise SlackRefusedError("invalid_arguments")
        if not place.person and params.text("recipient_user_id") not in self.people:
            raise SlackRefusedError("missing_recipient_user_id")
        if not place.person and params.text("recipient_team_id") != TEAM:
            raise SlackRefusedError("missing_recipient_team_id")
        message = self._new(place, thread, text)
        place.messages[message["ts"]] = message
        self.streams[place.id, message["ts"]] = True
        return {"channel": place.id, "ts": message["ts"]}

    def _append(self, params: Params) -> Answer:
        message = self._stream(params)
        if "markdown_text" not in params and "chunks" not in params:
            raise SlackRefusedError("no_text")
        message["text"] += self._streamed(params)
        return {"channel": params.text("channel"), "ts": message["ts"]}

    def _stop(self, params: Params) -> Answer:
        message = self._stream(params)
        message["text"] += self._streamed(params)
        self.streams[params.text("channel"), message["ts"]] = False
        return {"channel": params.text("channel"), "ts": message["ts"], "message": message}

    def _stream(self, params: Params) -> Message:
        place, ts = self._place(params.text("channel")), params.text("ts")
        if not self.streams.get((place.id, ts)):
            raise SlackRefusedError("message_not_in_streaming_state")
        return place.messages[ts]

    def _streamed(self, params: Params) -> str:
        text = params.text("markdown_text") + self._chunks(params.text("chunks"))
        if len(text) > STREAM_MAX_CHARS:
            raise SlackRefusedError("msg_too_long")
        check_characters(text)
        return text

    def _chunks(self, raw: str) -> str:
        """Return the text of a stream that comes in chunks; the fake knows those of text alone."""
        try:
            chunks = msgspec.json.decode(raw, type=list[dict[str, str]]) if raw else []
        except msgspec.MsgspecError:
            raise SlackRefusedError("invalid_chunks") from None
        if any(each.keys() != {"type", "text"} or each["type"] != "markdown_text" for each in chunks):
            raise SlackRefusedError("invalid_chunks")
        return "".join(each["text"] for each in chunks)

    def _status(self, params: Params) -> Answer:
        place, thread = self._place(params.text("channel_id")), params.text("thread_ts")
        if thread not in place.messages:
            raise SlackRefusedError("invalid_thread_ts")
        self.statuses.append((place.id, thread, params.text("status")))
        return {}

    # -- places and people -------------------------------------------------------------------------------------------

    def _place(self, number: str) -> FakeChannel:
        """Return a channel to which the app may write."""
        if number[:1] in "UW" and number:
            if number not in self.people:
                raise SlackRefusedError("channel_not_found")
            place = self.dm(number)
        else:
            named = (each for each in self.channels.values() if f"#{each.name}" == number)
            found = self.channels.get(number) or next(named, None)
            if found is None or (found.private and not found.member):
                raise SlackRefusedError("channel_not_found")
            place = found
        if place.person in self.gone:
            raise SlackRefusedError("user_disabled")
        if place.archived:
            raise SlackRefusedError("is_archived")
        if not place.member:
            raise SlackRefusedError("not_in_channel")
        return place

    def _list(self, params: Params) -> Answer:
        types = params.text("types") or "public_channel"
        found = [
            {"id": each.id, "name": each.name, "is_private": each.private, "is_archived": each.archived}
            for each in self.channels.values()
            if not each.person
            and (each.member or not each.private)
            and ("private_channel" if each.private else "public_channel") in types
            and not (each.archived and params.flag("exclude_archived"))
        ]
        start = int(params.text("cursor").removeprefix("at:") or 0)
        limit = params.integer("limit", 100)
        if not 0 < limit <= PAGE_MAX:
            raise SlackRefusedError("invalid_limit")
        end = start + min(limit, self.list_page)
        cursor = f"at:{end}" if end < len(found) else ""
        return {"channels": found[start:end], "response_metadata": {"next_cursor": cursor}}

    def _info(self, params: Params) -> Answer:
        found = self.channels.get(params.text("channel"))
        if found is None:
            raise SlackRefusedError("channel_not_found")
        return {"channel": {"id": found.id, "name": found.name, "is_private": found.private}}

    def _open(self, params: Params) -> Answer:
        who = params.text("users")
        if who not in self.people:
            raise SlackRefusedError("user_not_found")
        if who in self.gone:
            raise SlackRefusedError("user_disabled")
        return {"channel": {"id": self.dm(who).id}}

    def _user(self, params: Params) -> Answer:
        who = params.text("user")
        if who not in self.people:
            raise SlackRefusedError("user_not_found")
        return {"user": {"id": who, "name": who.lower(), "profile": {"display_name": self.people[who]}}}

    def _history(self, params: Params) -> Answer:
        place = self._place(params.text("channel"))
        found = [each for each in place.messages.values() if each.get("thread_ts") in (None, each["ts"])]
        return {"messages": self._told(found[::-1], params), "has_more": False}

    def _replies(self, params: Params) -> Answer:
        place, ts = self._place(params.text("channel")), params.text("ts")
        if ts not in place.messages:
            raise SlackRefusedError("thread_not_found")
        found = [each for each in place.messages.values() if ts in (each["ts"], each.get("thread_ts"))]
        return {"messages": self._told(found, params), "has_more": False}

    def _told(self, found: list[Message], params: Params) -> list[Message]:
        with_metadata, since = params.flag("include_all_metadata"), params.text("oldest")
        kept = [each for each in found if not since or float(each["ts"]) > float(since)][: params.integer("limit", 100)]
        return (
            kept
            if with_metadata
            else [{name: value for name, value in each.items() if name != "metadata"} for each in kept]
        )

    # -- reactions ---------------------------------------------------------------------------------------------------

    def _reacted(self, params: Params) -> Message:
        message = self._place(params.text("channel")).messages.get(params.text("timestamp"))
        if message is None:
            raise SlackRefusedError("message_not_found")
        return message

    def _react(self, params: Params) -> Answer:
        users = self._reacted(params).setdefault("reactions", {}).setdefault(params.text("name"), [])
        if BOT in users:
            raise SlackRefusedError("already_reacted")
        users.append(BOT)
        return {}

    def _unreact(self, params: Params) -> Answer:
        users = self._reacted(params).get("reactions", {}).get(params.text("name"), [])
        if BOT not in users:
            raise SlackRefusedError("no_reaction")
        users.remove(BOT)
        return {}

    def _reactions(self, params: Params) -> Answer:
        found = self._reacted(params).get("reactions", {})
        return {"message": {"reactions": [{"name": name, "users": users} for name, users in found.items() if users]}}

    # -- files -------------------------------------------------------------------------------------------------------

    def _upload(self, params: Params) -> Answer:
        length = params.integer("length")
        if not params.text("filename") or length <= 0:
            raise SlackRefusedError("invalid_arguments")
        number = self.file(params.text("filename"), "", b"")
        self.files[number].length, self.files[number].done = length, False
        return {"upload_url": f"{self.origin}/upload/{number}", "file_id": number}

    def uploaded(self, number: str, content: bytes, media_type: str) -> int:
        """Take the bytes of a file; return the status."""
        file = self.files.get(number)
        if file is None or file.done or len(content) != file.length:
            return 400
        file.content, file.media_type = content, media_type
        return 200

    def _complete(self, params: Params) -> Answer:
        try:
            named = msgspec.json.decode(params.text("files"), type=list[dict[str, Any]])
        except msgspec.MsgspecError:
            raise SlackRefusedError("invalid_arguments") from None
        place = self._place(params.text("channel_id"))
        comment = params.text("initial_comment")
        check_text(comment)
        message = self._new(place, params.text("thread_ts"), comment)
        for each in named:
            file = self._known(each.get("id", ""))
            if file.done or len(file.content) != file.length:
                raise SlackRefusedError("file_not_found")
            file.done = True
        message["files"] = [self.about_file(each["id"]) for each in named]
        place.messages[message["ts"]] = message
        return {"files": named}

    def _known(self, number: str) -> FakeSlackFile:
        if number not in self.files:
            raise SlackRefusedError("file_not_found")
        return self.files[number]

    def _file(self, params: Params) -> Answer:
        return {"file": self.about_file(self._known(params.text("file")).id)}

    def _forget(self, params: Params) -> Answer:
        del self.files[self._known(params.text("file")).id]
        return {}
