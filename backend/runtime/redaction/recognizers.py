"""Our rules, and a model, as recognizers of Presidio's analyzer; imported only when a policy asks for redaction.

Presidio's own recognizers are left out: they take 50 seconds for a megabyte, and one fetches a list from the network.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from presidio_analyzer import AnalyzerEngine, EntityRecognizer, RecognizerRegistry, RecognizerResult
from presidio_analyzer.nlp_engine import NlpArtifacts, NoOpNlpEngine

from backend.runtime.redaction.model import Mention
from backend.runtime.redaction.openings import Openings
from backend.runtime.redaction.rule import Labels, Rule, find

_LANGUAGE: Final = "en"
_SHORTEST_QUOTE: Final = 2


class Window(NlpArtifacts):
    """What the recognizers get beside a piece of text: how rules read it, where they begin, and its columns' names."""

    def __init__(self, plain: str, openings: Openings, labels: Labels | None) -> None:
        super().__init__([], _NO_TOKENS, [], [], None, _LANGUAGE)
        self.plain = plain
        self.openings = openings
        self.labels = labels

    @property
    def types(self) -> list[str]:
        """The entity types whose values the text can hold."""
        return list({rule.entity for rule in self.openings})


class _Found(RecognizerResult):
    """A result that Presidio finds equal to itself alone: it looks for equal ones, which are joined later anyway."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class RuleRecognizer(EntityRecognizer):
    """The rules of one entity type; scores are the rules' own, and below `floor` nothing is found."""

    def __init__(self, entity: str, rules: Iterable[Rule], floor: float) -> None:
        self._rules = tuple(rules)
        self._floor = floor
        super().__init__(supported_entities=[entity], name=f"{entity} by rules")
        self._origin = {
            RecognizerResult.RECOGNIZER_NAME_KEY: entity,
            RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
        }

    def load(self) -> None:
        """Nothing to load."""

    def analyze(self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts) -> list[RecognizerResult]:  # noqa: ARG002
        """What the rules find in a text; its window stands for Presidio's artifacts."""
        assert isinstance(nlp_artifacts, Window)
        window = nlp_artifacts
        return [
            _Found(match.entity, match.start, match.end, match.score, recognition_metadata=self._origin)
            for rule in self._rules
            if rule in window.openings
            for match in find(rule, window.plain, self._floor, window.labels, window.openings[rule])
        ]


class MentionRecognizer(EntityRecognizer):
    """A model's mentions, each looked up in the text by its quote, wherever it stands as whole words."""

    def __init__(
        self, entities: Collection[str], ask: Callable[[str, Collection[str]], Sequence[Mention]], floor: float
    ) -> None:
        self._ask = ask
        self._floor = floor
        super().__init__(supported_entities=sorted(entities), name="model")

    def load(self) -> None:
        """Nothing to load."""

    def analyze(self, text: str, entities: list[str], nlp_artifacts: NlpArtifacts) -> list[RecognizerResult]:  # noqa: ARG002
        """What the model finds in a text."""
        found = []
        for mention in self._ask(text, self.supported_entities):
            quote = mention.quote.strip()
            if (
                mention.type not in self.supported_entities
                or mention.score < self._floor
                or len(quote) < _SHORTEST_QUOTE
            ):
                continue
            places = re.finditer(rf"(?<!\w){re.escape(quote)}(?!\w)", text)
            found += [RecognizerResult(mention.type, *place.span(), min(mention.score, 1.0)) for place in places]
        return found


class _Analyzer(AnalyzerEngine):
    """Presidio's engine without its context words: our rules read their own, and their scores are fixed."""

    def _enhance_using_context(
        self,
        text: str,  # noqa: ARG002
        raw_results: list[RecognizerResult],
        nlp_artifacts: NlpArtifacts,  # noqa: ARG002
        recognizers: list[EntityRecognizer],  # noqa: ARG002
        context: list[str] | None = None,  # noqa: ARG002
    ) -> list[RecognizerResult]:
        return raw_results


def analyzer(recognizers: Sequence[EntityRecognizer]) -> Callable[[str, list[str], Window], list[RecognizerResult]]:
    """Presidio's analyzer over these recognizers alone; it takes a text, entity types and the window."""
    engine = _Analyzer(
        registry=RecognizerRegistry(recognizers=list(recognizers), supported_languages=[_LANGUAGE]),
        nlp_engine=_BLANK,
        supported_languages=[_LANGUAGE],
    )

    def analyze(text: str, entities: list[str], window: Window) -> list[RecognizerResult]:
        return engine.analyze(text, _LANGUAGE, entities=entities, nlp_artifacts=window, score_threshold=0.0)

    return analyze


_BLANK: Final = NoOpNlpEngine([{"lang_code": _LANGUAGE, "model_name": "none"}])
_BLANK.load()
_NO_TOKENS: Final = _BLANK.process_text("", _LANGUAGE).tokens
