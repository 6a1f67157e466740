"""Back ends of the store contract in thalweg.domain.store."""

from thalweg.store.open import open_store, restore

__all__ = ["open_store", "restore"]
