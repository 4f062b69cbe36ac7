"""Values whose fields stand in groups and are written beside each other, in pipeline files and in JSON. Pure."""

import typing
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

from cdc_ops.core.json_codec import group_of


class Grouped:
    """Base of a frozen dataclass with groups: `JSON_INLINE` names them, and the names of their fields differ."""

    __slots__ = ()
    JSON_INLINE: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Returns a value made of the names in a pipeline file, whatever group they are in; other fields have their defaults.

        >>> from cdc_ops.core.apply.deletes import Deletes
        >>> from cdc_ops.core.pipeline.table_settings import TableSettings
        >>> TableSettings.of(keys=("id",), deletes=Deletes.SOFT).apply.deletes
        <Deletes.SOFT: 'soft'>

        Raises:
            TypeError: there is no field of such a name, or a required one is missing.
        """
        own, groups = _sorted(cls, values)
        hints = typing.get_type_hints(cls)
        return cls(**own, **{name: hints[name](**inner) for name, inner in groups.items()})

    def changed(self, **values: Any) -> Self:
        """Returns the value with other fields in their place, by the same names.

        Raises:
            TypeError: there is no field of such a name.
        """
        own, groups = _sorted(type(self), values)
        return cast(
            Self, replace(cast(Any, self), **own, **{name: replace(getattr(self, name), **inner) for name, inner in groups.items()})
        )


def _sorted(cls: type, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns the values of a class's own fields, and those of its groups by group."""
    own: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    places = group_of(cls)
    for name, value in values.items():
        (groups.setdefault(places[name], {}) if name in places else own)[name] = value
    return own, groups
