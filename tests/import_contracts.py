"""The import contract "only": a package imports what is listed and nothing else; import-linter itself can only forbid."""

import sys
from typing import Any

from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """Keeps the direct imports of `modules` within themselves and `may_import`.

    A name in `may_import` allows itself and what is below it; the bare root package allows only itself. Packages from
    elsewhere are allowed unless `standard_library_only` is set. A module that does not exist yet yields a warning.
    """

    type_name = "only"

    modules = fields.ListField(subfield=fields.StringField())
    may_import = fields.ListField(subfield=fields.StringField())
    standard_library_only = fields.BooleanField(required=False, default=False)

    def check(self, graph: Any, verbose: bool) -> ContractCheck:
        broken: list[tuple[str, str, int]] = []
        warnings = [f"{name} does not exist" for name in self.modules if name not in graph.modules]
        for top in (name for name in self.modules if name in graph.modules):
            for importer in sorted({top} | graph.find_descendants(top)):
                for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                    if not self._allowed(top, imported):
                        details = graph.get_import_details(importer=importer, imported=imported)
                        broken.append((importer, imported, details[0]["line_number"] if details else 0))
        return ContractCheck(kept=not broken, warnings=warnings, metadata={"broken": broken})

    def _allowed(self, top: str, imported: str) -> bool:
        root = top.partition(".")[0]
        if imported.partition(".")[0] != root:
            return not self.standard_library_only or imported.partition(".")[0] in sys.stdlib_module_names
        return any(imported == name or (name != root and imported.startswith(f"{name}.")) for name in (top, *self.may_import))

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported, line in check.metadata["broken"]:
            output.print_error(f"{importer} may not import {imported} (line {line})", bold=False)
        allowed = ", ".join(self.may_import) or "nothing of this package"
        output.print_error(f"allowed: {allowed}", bold=False)
