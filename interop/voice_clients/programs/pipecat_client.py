"""pipecat's `OpenAILiveLLMService` in a pipeline with aggregators, in its own environment."""

# mypy: ignore-errors
# what it imports is in the environment of its client alone

import asyncio
from typing import Any

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    LLMRunFrame,
    SpeechOutputAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.live.llm import OpenAILiveLLMService
from talk import RATE, Talk, arguments


class Ear(FrameProcessor):
    """Stands where the transport's output would."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._talk = talk

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, SpeechOutputAudioRawFrame):
            self._talk.hear(frame.audio)
            self._talk.note("pipecat.audio")
        elif isinstance(frame, TTSTextFrame):
            self._talk.word(frame.text + " ", mine=False)
            self._talk.note("pipecat.text")
        await self.push_frame(frame, direction)


async def main() -> None:
    logger.remove()
    talk = Talk(arguments())
    service = OpenAILiveLLMService(
        api_key="sk-test",
        base_url=talk.given.url.replace("http", "ws", 1) + "/live/sessions",
        settings=OpenAILiveLLMService.Settings(system_instruction="You are a helpful voice."),
    )
    started = asyncio.Event()

    @service.event_handler("on_session_started")
    async def session_started(_service: Any, _session: Any) -> None:
        talk.note("pipecat.session_started")
        started.set()

    @service.event_handler("on_delegation_created")
    async def delegation_created(_service: Any, delegation: Any) -> None:
        talk.note("pipecat.delegation_created")

    context = LLMContext()
    pair = LLMContextAggregatorPair(context)
    pipeline = Pipeline([pair.user(), service, Ear(talk), pair.assistant()])
    params = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE)
    worker = PipelineWorker(pipeline, params=params, enable_rtvi=False)

    @worker.event_handler("on_pipeline_error")
    async def failed(_worker: Any, frame: ErrorFrame) -> None:
        talk.errors.append(frame.error)

    async def speak() -> None:
        await started.wait()
        async for piece in talk.pieces(20):
            await worker.queue_frame(
                InputAudioRawFrame(audio=piece, sample_rate=RATE, num_channels=1)
            )

    async def hold() -> None:
        await worker.queue_frame(LLMRunFrame())
        speaking = asyncio.create_task(speak())
        await talk.until_answered()
        speaking.cancel()
        await worker.queue_frame(EndFrame())

    runner = PipelineRunner(handle_sigint=False)
    await asyncio.gather(runner.run(worker), hold())
    for message in context.messages:
        if message.get("role") == "user" and isinstance(message.get("content"), str):
            talk.word(message["content"] + " ", mine=True)
    talk.report()


asyncio.run(main())
