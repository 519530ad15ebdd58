"""Voice notes become messages: each is heard once, off every lane, and then goes the way of typed words.

A note is committed before anybody listens, and its words before anybody reads them, together with what they cost. So
whoever is killed meanwhile listens again, and only a call that was under way is made a second time. What waits are rows
of the inbox; of each agent the oldest is heard, a few at the same time, so that nobody's notes hold up those of others.
"""

from collections.abc import Collection, Sequence

import trio

from daycare.agent.admission import Admission
from daycare.agent.attachments import AttachedFiles, is_sound, text_key
from daycare.agent.kinds import route
from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, InvalidError, NotFoundError, StoreAwayError, UnavailableError
from daycare.base.events import VoiceHeard, VoiceUnheard
from daycare.base.limits import STORE_RETRY_S
from daycare.base.messages import File, Origin
from daycare.features.voice.ears import Ear, Ears, VoiceNote, answered, nobody
from daycare.features.voice.records import HeardWords
from daycare.features.voice.rows import VoiceRows
from daycare.features.voice.sound import sound_of
from daycare.inference.metering import Payer
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Reply
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store


class Hearing:
    """Hears them. `connectors` are where people can be told something."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        files: AttachedFiles,
        ears: Ears,
        connectors: Collection[str],
        live: Live,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._store, self._rows = store, store.of(VoiceRows)
        self._admission, self._files, self._ears = admission, files, ears
        self._connectors = connectors
        self._live, self._bus, self._clock = live, bus, clock
        self._busy: set[str] = set()  # agents of which a note is heard now
        self._news = trio.Event()

    def wake(self) -> None:
        """Look again: there is something new to hear."""
        self._news.set()

    async def run(self) -> None:
        """Hear what waits, and what comes."""
        self._busy.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._news = trio.Event()
                await self._begin(nursery)
                await self._news.wait()

    async def _begin(self, nursery: trio.Nursery) -> None:
        """Begin to hear as many as there is room for."""
        most = self._live.now.voice.hearing.at_once
        if len(self._busy) >= most:
            return
        for row in await with_retry(lambda: self._rows.waiting(most + len(self._busy))):
            if len(self._busy) < most and row.agent_id not in self._busy:
                self._busy.add(row.agent_id)
                nursery.start_soon(self._attend, row)

    async def _attend(self, row: InboxRow) -> None:
        try:
            agent = await with_retry(lambda: self._store.agents.get(row.agent_id))
            if agent is None:  # it is purged just now, with its messages
                await trio.sleep(STORE_RETRY_S)
                return
            await self._hear(agent, row)
        except StoreAwayError:
            await trio.sleep(STORE_RETRY_S)  # it is heard once the store is back
        finally:
            self._busy.discard(row.agent_id)
            self._news.set()

    async def _hear(self, agent: Agent, row: InboxRow) -> None:
        began = self._clock.now_ms()
        payer = Payer(path=agent.path, user=agent.user, agent_id=agent.id, trace=row.envelope.trace)
        sounds = [file for file in row.envelope.files if is_sound(file)]
        try:
            with error_boundary("VOICE_CRASHED", f"listening to message {row.seq}"):
                heard = [await self.words(agent, file, payer) for file in sounds]
                words = "\n".join(each.text for each in heard if each.text)
                if not words:
                    raise InvalidError("VOICE_SILENT", "I heard no words in it", hint="Speak closer to it, or type it.")
                envelope = await with_retry(lambda: self._admission.heard(row.envelope, words))
        except StoreAwayError:
            raise
        except DaycareError as error:
            await self._sorry(agent, row, error)
            return
        echo = self._echo(agent, row, words)
        await with_retry(lambda: self._rows.reword(agent, row, envelope, echo))
        self._bus.publish(
            VoiceHeard(
                **about(self._clock, agent, envelope.trace),
                seq=row.seq,
                by=heard[0].by,
                language=heard[0].language,
                took_ms=self._clock.now_ms() - began,
            )
        )

    async def words(self, agent: Agent, file: File, payer: Payer) -> HeardWords:
        """Return the words in a file of an agent's user: kept once they were heard, so that they are heard once.

        Raises `DaycareError` with what is to be done about it, from the last of those who were asked.
        """
        known = await self._store.files.find(text_key(file), agent.user)
        if known is not None:
            data = await self._store.files.read(known.id, agent.user)
            return HeardWords(text=(data or b"").decode(), language=known.media_type.partition("; language=")[2])
        recording = await self._recording(agent, file)
        ears = await self._ears.of(agent, recording.sound)
        failed: DaycareError = nobody()
        for ear in ears:
            try:
                return await self._asked(ear, agent, file, recording, payer)
            except StoreAwayError:
                raise
            except DaycareError as error:
                failed = error
        raise failed

    async def _recording(self, agent: Agent, file: File) -> VoiceNote:
        """Return the bytes of a file. Raises `InvalidError` for what is no sound, or is too long."""
        data = await self._files.read(file.id, agent.user)
        if data is None:
            raise NotFoundError("VOICE_GONE", "it is not kept any longer", hint="Send it again, or type it.")
        sound = sound_of(data)
        if sound is None:
            what = "it is damaged, or no sound that I know"
            raise InvalidError("VOICE_GARBAGE", what, hint="Record it again, or type it.")
        most = self._live.now.voice.hearing.minutes
        if sound.exact and sound.seconds > 60 * most:
            what = f"it takes {sound.seconds / 60:.0f} minutes, and I listen for {most} at most"
            raise InvalidError("VOICE_LONG", what, hint="Send it in parts, or type it.")
        return VoiceNote(data, sound)

    async def _asked(self, ear: Ear, agent: Agent, file: File, recording: VoiceNote, payer: Payer) -> HeardWords:
        """Ask one who can hear, within the deadline, and keep the answer together with what it cost."""
        seconds = self._live.now.voice.hearing.seconds
        with trio.move_on_after(seconds):
            async with ear.meter(recording, payer) as meter:
                heard = await ear.hear(recording, payer)
                if meter is not None:
                    answered(meter, heard)
                spend = meter.spend if meter is not None else None
                text = heard.text.encode(errors="replace")
                kept = text_key(file), agent.user, Origin.FILE, f"{file.name}.txt", heard.media_type, text, spend
                await with_retry(lambda: self._rows.keep(*kept))
                if meter is not None:
                    meter.paid = True
            return heard
        what = f"listening took longer than {seconds} s"
        raise UnavailableError("VOICE_SLOW", what, hint="Send a shorter one, or type it.")

    async def _sorry(self, agent: Agent, row: InboxRow, error: DaycareError) -> None:
        """Let a note that nobody could hear be answered with why; what was typed with it is read all the same."""
        user = await with_retry(lambda: self._store.people.get(agent.user))
        hint = error.hint
        if hint and not hint.endswith("."):  # it names a command or a setting: for who runs this
            mine = user is not None and user.operator
            hint = f"{hint}. Until then, type it." if mine else "Type it, or send it again later."
        sorry = f"I could not listen to your voice note: {error.message}. {hint or 'Type it, or send it again later.'}"
        envelope = self._admission.unheard(row.envelope, error.message, sorry)
        await with_retry(lambda: self._rows.reword(agent, row, envelope))
        self._bus.publish(
            VoiceUnheard(
                **about(self._clock, agent, envelope.trace), seq=row.seq, code=error.code, reason=error.message
            )
        )

    def _echo(self, agent: Agent, row: InboxRow, words: str) -> Sequence[Reply]:
        """Return what tells somebody which words were heard, where they want to know."""
        wanted = self._live.now.voice.hearing.echo if agent.config.echo is None else agent.config.echo == "on"
        address = route(agent, row.envelope, self._connectors) if wanted else None
        if address is None:
            return ()
        about_it = row.envelope.person.message
        return (Reply(connector=address[0], target=address[1], text=f"heard: {words}", reply_to=about_it, silent=True),)
