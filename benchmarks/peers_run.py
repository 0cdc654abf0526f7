"""A whole comparison with peers: typed sessions, then decoding alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.cases import EditCase
from benchmarks.peers.contract import Peer, PeerOptions, TokenPeerSession
from benchmarks.peers.llama_server_peers import NAME as LLAMA_SERVER
from benchmarks.peers.llama_server_peers import llama_server_peers
from benchmarks.peers.lookup_peer import lookup_peer
from benchmarks.peers.reasons import reason, without_folders
from benchmarks.peers_decoding import (
    DecodeRun,
    DecodeSide,
    OwnDecoders,
    decode_all,
    runs_of,
    token_side,
)
from benchmarks.peers_own import OURS, OURS_PLAIN, our_peers
from benchmarks.peers_places import DecodePlace, PlaceFinder, Task, in_rounds
from speclsp.engine.draft_vocabulary import check_vocabularies
from speclsp.engine.llama.library import route_log
from speclsp.engine.llama.vocabulary import load_vocabulary
from speclsp.engine.models import LlamaLoader, Tokenizer, Weights
from speclsp.errors import SpecLspError, StoreError
from speclsp.ngrams.files import open_statistics
from speclsp.ngrams.own_layout import MAGIC
from speclsp.ngrams.reading import read_bytes
from speclsp.prompt.families import family_for
from speclsp.settings import Settings

LEAST_ROUNDS: Final = 3
"""Fewer say nothing of the spread."""


class UnknownPeerError(SpecLspError):
    """A name that no side of the comparison has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared, and how much of it."""

    settings: Settings
    options: PeerOptions
    cases: Sequence[EditCase]
    n_rounds: int
    seed: int
    n_places: int
    """Places of each kind and round at which decoding is compared."""
    n_decoded: int
    """Tokens that are decoded at each."""


def all_peers(settings: Settings) -> list[Peer]:
    """Return all sides: ours first, then llama-server's configurations, then llama-cpp-python."""
    return [*our_peers(settings), *llama_server_peers(), lookup_peer()]


def chosen_peers(settings: Settings, names: Sequence[str]) -> list[Peer]:
    """Return the sides of these names and ours, which everything is compared with.

    All where no names are given.  Raises :class:`UnknownPeerError`.
    """
    peers = all_peers(settings)
    known = [peer.name for peer in peers]
    for name in names:
        if name not in known:
            raise UnknownPeerError(
                f"{name!r} cannot be compared with.", remedy=f"Known: {', '.join(known)}."
            )
    always = {OURS, OURS_PLAIN}
    return [peer for peer in peers if not names or peer.name in always.union(names)]


def without_kinds(peers: Sequence[Peer], asked_for: Collection[str]) -> list[Peer]:
    """Return all sides but llama-server with its kinds of speculation that nobody asked for.

    They hardly change what a key waits: most of that is the prompt.
    """
    return [
        peer
        for peer in peers
        if peer.name in asked_for or not peer.name.startswith(f"{LLAMA_SERVER} ")
    ]


def check_files(comparison: Comparison) -> None:
    """Read what a comparison would find out about its files after an hour.

    Raises :class:`~speclsp.errors.SpecLspError` for a model that cannot fill in, for a draft model
    with other tokens, and for statistics that are not the model's or that llama-server cannot read.
    """
    route_log(lambda _level, _line: None)
    draft, statistics = comparison.options.draft_model, comparison.options.statistics_file
    with closing(load_vocabulary(comparison.options.model)) as vocabulary:
        family_for(vocabulary, comparison.settings.fim_template)
        if draft is not None and not comparison.settings.spec_replace:
            with closing(load_vocabulary(draft)) as draft_vocabulary:
                check_vocabularies(vocabulary, draft_vocabulary)
        if statistics is not None:
            if read_bytes(statistics).startswith(MAGIC):
                raise StoreError(
                    f"{statistics} is not in llama.cpp's layout, which llama-server reads.",
                    remedy="Build it with `speclsp ngram build --order 2 --format llama.cpp`.",
                )
            open_statistics(statistics, vocabulary, "static")


@contextmanager
def loaded_models(settings: Settings) -> Iterator[tuple[Tokenizer, Weights]]:
    """Load our models into this process, and free them in the end."""
    loader = LlamaLoader(lambda _level, _line: None)
    tokenizer = loader.tokenizer(settings)
    weights = loader.weights(settings, tokenizer, lambda _share: True, lambda _level, _line: None)
    try:
        yield tokenizer, weights
    finally:
        weights.close()


def decode_places(comparison: Comparison, tokenizer: Tokenizer) -> dict[Task, list[DecodePlace]]:
    """Return the places at which decoding is compared, of each kind as many as there are."""
    finder = PlaceFinder(comparison.settings, tokenizer.vocabulary.tokenize)
    n_places = comparison.n_places * comparison.n_rounds
    return {
        "cases": finder.of_cases(comparison.cases, n_places, comparison.seed),
        "edits": finder.of_edits(comparison.cases, n_places, comparison.seed),
    }


def decode_tasks(
    runs: dict[Task, list[DecodeRun]],
    places: Mapping[Task, Sequence[DecodePlace]],
    comparison: Comparison,
    peers: Sequence[Peer],
    tokenizer: Tokenizer,
    weights: Weights,
    progress: Callable[[str, int], None],
) -> None:
    """Let all sides decode at the places of all kinds.

    ``runs`` hold at any time what is whole; a kind that has no places is not among them.
    ``progress`` is told who is next, and how many turns there are in all.
    """
    own = OwnDecoders(comparison.settings, tokenizer, weights)
    with ExitStack() as stack:
        sides, missing = _sides(stack, comparison.options, peers)
        n_turns = sum(
            len(chosen) * (len(own.sides(task)) + len(sides)) for task, chosen in places.items()
        )
        for task, chosen in places.items():
            if not chosen:
                continue
            all_sides = [*own.sides(task), *sides]
            found = runs_of(all_sides)
            runs[task] = [*found, *missing]
            decode_all(
                found,
                all_sides,
                in_rounds(chosen, comparison.n_rounds),
                own.context,
                n_predict=comparison.n_decoded,
                progress=lambda label: progress(label, n_turns),
            )


def _sides(
    stack: ExitStack, options: PeerOptions, peers: Sequence[Peer]
) -> tuple[list[DecodeSide], list[DecodeRun]]:
    """Start the peers that continue tokens; the others say why they do not."""
    sides: list[DecodeSide] = []
    missing: list[DecodeRun] = []
    for peer in peers:
        if peer.name in (OURS, OURS_PLAIN):
            continue
        why_not = peer.why_not(options)
        if why_not is None:
            try:
                session = stack.enter_context(peer.open(options))
                if isinstance(session, TokenPeerSession):
                    sides.append(token_side(peer.name, session))
                    continue
                why_not = "it cannot be given a prompt of tokens."
            except SpecLspError as error:
                why_not = reason(error)
        missing.append(DecodeRun(peer.name, why_not=without_folders(why_not)))
    return sides, missing
