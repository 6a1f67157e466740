"""SELECT: sources, joins, grouping, sorting, DISTINCT, set operations, WITH."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from thalweg.domain.table_sql import SqlFault
from thalweg.sql.parse import walk
from thalweg.store.sqlite.sql.calls import AGGREGATE_NAMES, SETS, Calls, has_aggregate, has_set
from thalweg.store.sqlite.sql.expressions import KEYED, names_of, only
from thalweg.store.sqlite.sql.relations import COUNTED, NUMBER, TIME, Relation, RelationColumn, is_never_null
from thalweg.store.sqlite.sql.scope import Column, Cte, E, Grouping, Item, Node, Scope
from thalweg.store.sqlite.sql.types import common, shown

MAX_COLUMNS: Final = 1_664
"""Of what is selected; SQLite has 2,000."""
_JOINS: Final = {"JOIN_INNER": "JOIN", "JOIN_LEFT": "LEFT JOIN", "JOIN_RIGHT": "RIGHT JOIN", "JOIN_FULL": "FULL JOIN"}

Columns = list[tuple[str, str]]


@dataclass(slots=True)
class _Target:
    name: str
    e: E
    node: Node | None


@dataclass(slots=True)
class _Source:
    """A part of FROM: its text, what it brings into sight, and columns that a join has made one of two."""

    text: str
    items: list[Item]
    merged: list[Column] = field(default_factory=list)


class Selects(Calls):
    def statement(self, body: Node) -> tuple[str, Columns]:
        """A whole statement, and the names and types of its columns."""
        return self.query(body, Scope(None))

    def subquery(self, body: Node, scope: Scope) -> tuple[str, Columns]:
        return self.query(body, scope)

    def query(self, body: Node, around: Scope) -> tuple[str, Columns]:
        scope = Scope(around)
        prefix = self._with(body.get("withClause"), scope)
        if "larg" in body:
            text, columns = self._set_operation(body, scope)
        elif "valuesLists" in body:
            text, columns = self._values(body, scope)
        else:
            text, columns = self._select(body, scope)
        if len(columns) > MAX_COLUMNS:
            raise SqlFault(f"target lists can have at most {MAX_COLUMNS:,} entries")
        return prefix + text, columns

    def _with(self, clause: Node | None, scope: Scope) -> str:
        if clause is None:
            return ""
        parts: list[str] = []
        for wrapped in clause["ctes"]:
            cte = wrapped["CommonTableExpr"]
            kind, body = only(cte["ctequery"])
            if kind != "SelectStmt":
                raise SqlFault(f"Invalid query AST element: {kind}")
            text, columns = self.query(body, scope)
            columns = _renamed(columns, names_of(cte.get("aliascolnames", ())), cte["ctename"])
            alias = self.alias("q")
            if cte["ctename"] in scope.ctes:
                raise SqlFault(f'WITH query name "{cte["ctename"]}" specified more than once')
            scope.ctes[cte["ctename"]] = Cte(alias, columns)
            numbered = ", ".join(f"c{i}" for i in range(1, len(columns) + 1))
            parts.append(f"{alias}({numbered}) AS ({text})")
        return f"WITH {', '.join(parts)} "

    # -------------------------------------------------------------- FROM

    def _source(self, node: Node, scope: Scope) -> _Source:
        kind, body = only(node)
        match kind:
            case "RangeVar":
                return self._table(body, scope)
            case "RangeSubselect":
                if body.get("lateral"):
                    raise SqlFault("LATERAL is supported for functions alone")
                inner = body["subquery"]["SelectStmt"]
                text, columns = self.query(inner, Scope(scope.parent, ctes=scope.ctes))
                name, renamed = _alias(body)
                columns = _renamed(columns, renamed, name)
                alias = self.alias("s")
                return _Source(f"({text}) AS {alias}", [_item(alias, name, columns)])
            case "RangeFunction":
                return self._function(body, scope)
            case "JoinExpr":
                return self._join(body, scope)
            case _:
                raise SqlFault(f"Invalid query AST element: {kind}")

    def _table(self, body: Node, scope: Scope) -> _Source:
        name = body["relname"]
        called, renamed = _alias(body)
        cte = None if body.get("schemaname") else scope.cte(name)
        if cte is not None:
            alias = self.alias("s")
            columns = _renamed(cte.columns, renamed, called or name)
            return _Source(f"{cte.alias} AS {alias}", [_item(alias, called or name, columns)])
        relation = self.relations[name]
        alias = self.alias("t")
        self.read.add(relation.source)
        found = [Column(c.name, _read(alias, c), alias) for c in relation.columns]
        if renamed:
            names = [column.name for column in found]
            if len(renamed) > len(names):
                raise SqlFault(f'table "{called}" has {len(names)} columns available but {len(renamed)} specified')
            found = [
                Column(renamed[i] if i < len(renamed) else c.name, c.expression, c.of) for i, c in enumerate(found)
            ]
        return _Source(f"{relation.source} AS {alias}", [Item(alias, called or name, found, relation)])

    def _function(self, body: Node, scope: Scope) -> _Source:
        functions = body["functions"]
        if len(functions) != 1 or body.get("is_rowsfrom") or body.get("coldeflist"):
            raise SqlFault("ROWS FROM and lists of column definitions are not supported")
        kind, call = only(functions[0]["List"]["items"][0])
        if kind != "FuncCall":
            raise SqlFault(f"Invalid query AST element: {kind}")
        function = names_of(call["funcname"])[-1]
        if function not in SETS:
            raise SqlFault(f"{function}() in FROM is not supported")
        called, renamed = _alias(body)
        alias = self.alias("g")
        inner = Scope(scope, expands="functions in FROM", aggregates="functions in FROM")
        value, source = self.rows_of(function, call, inner, alias)
        columns = [Column(renamed[0] if renamed else called or function, value, alias)]
        if body.get("ordinality"):
            columns.append(
                Column(renamed[1] if len(renamed) > 1 else "ordinality", E(f"({alias}.key + 1)", "int8"), alias)
            )
        return _Source(f"{source} AS {alias}", [Item(alias, called or function, columns)])

    def _join(self, body: Node, scope: Scope) -> _Source:
        if "alias" in body or body.get("join_using_alias"):
            raise SqlFault("aliases of joins are not supported")
        left = self._source(body["larg"], scope)
        # A function on the right sees what is on the left.
        beside = Scope(scope.parent, [*scope.items, *left.items], ctes=scope.ctes)
        right = self._source(body["rarg"], beside)
        _check_names([*left.items, *right.items])
        kind = _JOINS.get(body["jointype"])
        if kind is None:
            raise SqlFault(f"Invalid query AST element: {body['jointype']}")
        right_text = f"({right.text})" if "JoinExpr" in body["rarg"] else right.text
        using = names_of(body.get("usingClause", ()))
        if body.get("isNatural"):
            theirs = {column.name for column in _visible(right)}
            using = [column.name for column in _visible(left) if column.name in theirs]
        merged = [*left.merged, *right.merged]
        if using:
            conditions: list[str] = []
            for name in using:
                a, b = _one(left, name), _one(right, name)
                conditions.append(self.compared("=", a.expression, b.expression).sql)
                wanted = common([a.expression.kind, b.expression.kind], "JOIN/USING")
                one, other = self.coerced(a.expression, wanted), self.coerced(b.expression, wanted)
                chosen = {"JOIN_RIGHT": other, "JOIN_FULL": E(f"coalesce({one.sql}, {other.sql})", wanted)}.get(
                    body["jointype"], one
                )
                merged = [m for m in merged if m.name != name]
                merged.append(Column(name, chosen, a.of))
            condition = " AND ".join(conditions)
        elif "quals" in body:
            inner = Scope(
                scope.parent, [*left.items, *right.items], merged, ctes=scope.ctes, aggregates="JOIN conditions",
                expands="JOIN conditions",
            )  # fmt: skip
            condition = self.condition(body["quals"], inner, "JOIN/ON")
        else:
            condition = ""
        text = f"{left.text} {kind} {right_text}{f' ON {condition}' if condition else ''}"
        return _Source(text, [*left.items, *right.items], merged)

    def _from(self, nodes: Sequence[Node], scope: Scope) -> str:
        texts: list[str] = []
        for node in nodes:
            source = self._source(node, scope)
            # A comma binds less than JOIN does.
            texts.append(f"({source.text})" if "JoinExpr" in node and len(nodes) > 1 else source.text)
            scope.items.extend(source.items)
            scope.merged.extend(source.merged)
            _check_names(scope.items)
        return ", ".join(texts)

    # -------------------------------------------------------------- SELECT

    def _select(self, body: Node, scope: Scope) -> tuple[str, Columns]:
        for name in ("lockingClause", "intoClause"):
            if body.get(name):
                raise SqlFault(f"Invalid query AST element: {name}")
        for wrapped in body.get("windowClause", ()):
            window = wrapped["WindowDef"]
            scope.windows[window["name"]] = window
        source = self._from(body.get("fromClause", ()), scope)
        scope.aggregates, scope.expands = "WHERE", "WHERE"
        where = self.condition(body["whereClause"], scope, "WHERE") if "whereClause" in body else ""
        nodes = body.get("targetList", ())
        grouped = self._group(body, nodes, scope)
        scope.aggregates = scope.expands = ""
        targets = self._targets(nodes, scope)
        scope.expands = "HAVING"
        having = self.condition(body["havingClause"], scope, "HAVING") if "havingClause" in body else ""
        scope.expands = "ORDER BY"
        distinct = body.get("distinctClause")
        on = [node for node in distinct if node] if distinct else None
        order = self._order(body.get("sortClause", ()), targets, scope, distinct is not None and not on)
        if scope.series:
            source = ", ".join(part for part in (source, *scope.series) if part)
        parts = [f" FROM {source}" if source else ""]
        if where:
            parts.append(f" WHERE {where}")
        if grouped:
            parts.append(f" GROUP BY {', '.join(grouped)}")
        if having:
            if not grouped and not has_aggregate([nodes, body["havingClause"]]):
                raise SqlFault("HAVING without GROUP BY or an aggregate is not supported")
            parts.append(f" HAVING {having}")
        rest = "".join(parts)
        if scope.grouping is not None and not (grouped or having or order or distinct):
            apart = self._asked_apart(nodes, body.get("whereClause"), rest, targets, scope)
            if apart:
                return apart + self._limit(body, scope), [(target.name, target.e.kind) for target in targets]
        columns = [(target.name, target.e.kind) for target in targets]
        selected = ", ".join(f"{target.e.sql} AS c{i}" for i, target in enumerate(targets, 1))
        limit = self._limit(body, scope)
        if not targets:
            raise SqlFault("a SELECT without columns is not supported")
        if on:
            return self._distinct_on(on, targets, order, selected, rest, limit, scope), columns
        sorting = f" ORDER BY {', '.join(text for _, text in order)}" if order else ""
        if distinct is None:
            return f"SELECT {selected}{rest}{sorting}{limit}", columns
        if not KEYED.intersection(kind for _, kind in columns):
            for _, kind in columns:
                self.key(E("", kind))
            return f"SELECT DISTINCT {selected}{rest}{sorting}{limit}", columns
        alias = self.alias("s")
        keys = ", ".join(self.key(E(f"{alias}.c{i}", kind)) for i, (_, kind) in enumerate(columns, 1))
        numbered = ", ".join(f"{alias}.c{i} AS c{i}" for i in range(1, len(columns) + 1))
        return f"SELECT {numbered} FROM (SELECT {selected}{rest}) AS {alias} GROUP BY {keys}{sorting}{limit}", columns

    def _asked_apart(
        self, nodes: Sequence[Node], where: Node | None, rest: str, targets: list[_Target], scope: Scope
    ) -> str:
        """How many rows there are and between what, each asked for by itself: SQLite finds the least and the greatest
        by an index where nothing else is asked for, and counts are kept of what is made. Empty: something else is."""
        relation = scope.items[0].relation if len(scope.items) == 1 else None
        if relation is None or (where is not None and not (relation.made and _is_of_time(where, relation))):
            return ""
        others = AGGREGATE_NAMES - {"min", "max", "count"}
        for kind, call in walk(list(nodes)):
            if kind == "SubLink" or (kind == "FuncCall" and names_of(call["funcname"])[-1] in others):
                return ""
        alias = scope.items[0].alias
        count = f"SELECT count(*){rest}"
        if relation.made is not None:
            self.read.add(relation.source + COUNTED)
            counted = rest.replace(f" FROM {relation.source} ", f" FROM {relation.source}{COUNTED} ", 1)
            count = f"SELECT {alias}.n{counted}"
        pattern = re.compile(
            rf"(?:(min|max)\({alias}\.(?:{'|'.join(sorted(relation.indexed))})\)"
            rf"|count\((?:\*|{alias}\.(?:{NUMBER}|{TIME}))\))(?! *(?:FILTER|OVER))"
        )
        texts: list[str] = []
        for target in targets:
            left = pattern.sub("", target.e.sql)
            if f"{alias}." in left or "count(" in left:
                return ""
            texts.append(
                pattern.sub(lambda found: f"({f'SELECT {found[0]}{rest}' if found[1] else count})", target.e.sql)
            )
        return "SELECT " + ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts, 1))

    def _group(self, body: Node, nodes: Sequence[Node], scope: Scope) -> list[str]:
        """GROUP BY's texts; from then on the scope is one of groups, if it is."""
        clause = body.get("groupClause", ())
        if body.get("groupDistinct"):
            raise SqlFault("Invalid query AST element: GROUP BY DISTINCT")
        if not clause and "havingClause" not in body and not has_aggregate([nodes, body.get("sortClause", [])]):
            return []
        grouping = Grouping()
        keys: list[str] = []
        scope.aggregates, scope.expands = "GROUP BY", ""
        for node in clause:
            e = self.expression(self._grouped_node(node, nodes, scope), scope)
            if e.kind == "unknown":
                e = self.coerced(e, "text")
            grouping.texts.add(e.sql)
            if not any(column.expression.sql == e.sql for item in scope.items for column in item.columns):
                grouping.has_expressions = True
            for item in scope.items:
                key = "" if item.relation is None else item.relation.key
                if key and e.sql == f"{item.alias}.{key}":
                    grouping.tables.add(item.alias)
            keys.append(self.key(e))
        scope.grouping = grouping
        return keys

    def _grouped_node(self, node: Node, nodes: Sequence[Node], scope: Scope) -> Node:
        kind, body = only(node)
        if kind == "A_Const" and "ival" in body:
            place = body["ival"].get("ival", 0)
            if not 1 <= place <= len(nodes) or _is_star(nodes[place - 1]):
                raise SqlFault(f"GROUP BY position {place} is not in select list")
            found: Node = nodes[place - 1]["ResTarget"]["val"]
            if has_aggregate(found):
                raise SqlFault("aggregate functions are not allowed in GROUP BY")
            return found
        if kind == "A_Const":
            raise SqlFault("non-integer constant in GROUP BY")
        if kind == "ColumnRef" and len(body["fields"]) == 1 and "String" in body["fields"][0]:
            name = names_of(body["fields"])[0]
            try:
                scope.column(name)
            except SqlFault:
                # No column of the sources: one of the results.
                for target in nodes:
                    if target["ResTarget"].get("name") == name:
                        chosen: Node = target["ResTarget"]["val"]
                        return chosen
        return node

    def _targets(self, nodes: Sequence[Node], scope: Scope) -> list[_Target]:
        targets: list[_Target] = []
        for wrapped in nodes:
            target = wrapped["ResTarget"]
            if _is_star(wrapped):
                targets.extend(self._star(target["val"]["ColumnRef"]["fields"], scope))
                continue
            known = next((t for t in targets if t.node == target["val"]), None)
            # A function that gives rows gives the same ones wherever it stands.
            e = known.e if known is not None and has_set(target["val"]) else self.expression(target["val"], scope)
            if e.kind == "unknown":
                e = self.coerced(e, "text")
            targets.append(_Target(target.get("name") or _name(target["val"]), e, target["val"]))
        return targets

    def _star(self, fields: Sequence[Node], scope: Scope) -> list[_Target]:
        names = names_of(fields[:-1])
        if names:
            item = scope.item(names[-1])
            if item is None:
                raise SqlFault(f'missing FROM-clause entry for table "{names[-1]}"')
            return [_Target(c.name, scope.column(c.name, item.name), None) for c in _without_twins(item)]
        if not scope.items:
            raise SqlFault("SELECT * with no tables specified is not valid")
        found = [_Target(c.name, scope.column(c.name), None) for c in scope.merged]
        merged = {column.name for column in scope.merged}
        for item in scope.items:
            shown = [column.name for column in _without_twins(item) if column.name not in merged]
            found.extend(_Target(name, scope.column(name, item.name), None) for name in shown)
        return found

    def _order(
        self, clause: Sequence[Node], targets: list[_Target], scope: Scope, is_distinct: bool
    ) -> list[tuple[E, str]]:
        """ORDER BY: by a result's name or place, else by an expression of what is in sight."""
        order: list[tuple[E, str]] = []
        for wrapped in clause:
            body = wrapped["SortBy"]
            place = self._placed(body["node"], targets)
            if place is None:
                e = self.expression(body["node"], scope)
                place = next((i for i, target in enumerate(targets, 1) if target.e.sql == e.sql), None)
                if place is None:
                    if is_distinct:
                        raise SqlFault("for SELECT DISTINCT, ORDER BY expressions must appear in select list")
                    order.append((e, self.sorted_by(e, body, scope)))
                    continue
            e = targets[place - 1].e
            text = "" if not is_distinct and is_never_null(e.sql) else f"c{place}"
            order.append((e, self.sorted_by(e, body, scope, text)))
        return order

    @staticmethod
    def _placed(node: Node, targets: list[_Target]) -> int | None:
        kind, body = only(node)
        if kind == "A_Const":
            if "ival" not in body:
                raise SqlFault("non-integer constant in ORDER BY")
            place = int(body["ival"].get("ival", 0))
            if not 1 <= place <= len(targets):
                raise SqlFault(f"ORDER BY position {place} is not in select list")
            return place
        if kind == "ColumnRef" and len(body["fields"]) == 1 and "String" in body["fields"][0]:
            name = names_of(body["fields"])[0]
            found = [i for i, target in enumerate(targets, 1) if target.name == name]
            if len({targets[i - 1].e.sql for i in found}) > 1:
                raise SqlFault(f'ORDER BY "{name}" is ambiguous')
            return found[0] if found else None
        return None

    def _distinct_on(
        self, on: Sequence[Node], targets: list[_Target], order: list[tuple[E, str]], selected: str, rest: str,
        limit: str, scope: Scope,
    ) -> str:  # fmt: skip
        """Of each group the row that comes first."""
        found: list[E] = []
        for node in on:
            place = self._placed(node, targets)
            found.append(self.expression(node, scope) if place is None else targets[place - 1].e)
        wanted = {e.sql for e in found}
        for e, _ in order[: len(wanted)]:
            if e.sql not in wanted:
                raise SqlFault("SELECT DISTINCT ON expressions must match initial ORDER BY expressions")
        if scope.series:
            raise SqlFault("functions that give rows beside DISTINCT ON are not supported")
        keys = ", ".join(self.key(e) for e in found)
        # Names of results have no meaning inside a window.
        inner = ", ".join(_inside(text, targets) for _, text in order)
        sorting = f" ORDER BY {inner}" if inner else ""
        number = f"row_number() OVER (PARTITION BY {keys}{sorting}) AS n"
        ranked = f", row_number() OVER (ORDER BY {inner}) AS p" if inner else ""
        alias = self.alias("s")
        numbered = ", ".join(f"{alias}.c{i} AS c{i}" for i in range(1, len(targets) + 1))
        outer = f" ORDER BY {alias}.p" if inner else ""
        return (
            f"SELECT {numbered} FROM (SELECT {selected}, {number}{ranked}{rest}) AS {alias} "
            f"WHERE {alias}.n = 1{outer}{limit}"
        )

    def _limit(self, body: Node, scope: Scope) -> str:
        if body.get("limitOption") == "LIMIT_OPTION_WITH_TIES":
            raise SqlFault("Invalid query AST element: WITH TIES")
        texts: list[str] = []
        inner = Scope(None, aggregates="LIMIT", expands="LIMIT")
        for name, what in (("limitCount", "LIMIT"), ("limitOffset", "OFFSET")):
            if name not in body:
                texts.append("")
                continue
            e = self.expression(body[name], inner)
            e = self.cast(e, "int8") if e.kind in ("numeric", "float8") else self.coerced(e, "int8")
            if e.is_constant:
                if e.literal is not None and e.literal < 0:
                    raise SqlFault(f"{what} must not be negative")
                texts.append("" if e.literal is None else e.sql)
            else:
                texts.append(f"coalesce(pg_limit({e.sql}), {'-1' if what == 'LIMIT' else '0'})")
        if texts[1]:
            return f" LIMIT {texts[0] or '-1'} OFFSET {texts[1]}"
        return f" LIMIT {texts[0]}" if texts[0] else ""

    # -------------------------------------------------------------- sets and values

    def _set_operation(self, body: Node, scope: Scope) -> tuple[str, Columns]:
        name = body["op"].removeprefix("SETOP_")
        left, left_columns = self.query(body["larg"], scope)
        right, right_columns = self.query(body["rarg"], scope)
        if len(left_columns) != len(right_columns):
            raise SqlFault(f"each {name} query must have the same number of columns")
        kinds = [
            common([_literal_kind(body["larg"], i, a), _literal_kind(body["rarg"], i, b)], name)
            for i, ((_, a), (_, b)) in enumerate(zip(left_columns, right_columns, strict=True))
        ]
        is_all = bool(body.get("all"))
        if is_all and name != "UNION":
            raise SqlFault(f"{name} ALL is not supported")
        keyed = bool(KEYED.intersection(kinds))
        if keyed and name != "UNION":
            types = ", ".join(sorted(map(shown, KEYED.intersection(kinds))))
            raise SqlFault(f"{name} of columns of type {types} is not supported; cast them to text or double precision")
        sides = [self._side(text, columns, kinds) for text, columns in ((left, left_columns), (right, right_columns))]
        alias = self.alias("s")
        numbered = ", ".join(f"{alias}.c{i} AS c{i}" for i in range(1, len(kinds) + 1))
        operator = "UNION ALL" if is_all or keyed else name
        group = ""
        if not is_all:
            keys = [self.key(E(f"{alias}.c{i}", kind)) for i, kind in enumerate(kinds, 1)]
            group = f" GROUP BY {', '.join(keys)}" if keyed else ""
        columns = [(name, kind) for (name, _), kind in zip(left_columns, kinds, strict=True)]
        targets = [_Target(n, E(f"{alias}.c{i}", kind), None) for i, (n, kind) in enumerate(columns, 1)]
        order: list[str] = []
        for wrapped in body.get("sortClause", ()):
            place = self._placed(wrapped["SortBy"]["node"], targets)
            if place is None:
                raise SqlFault("invalid UNION/INTERSECT/EXCEPT ORDER BY clause: only result column names can be used")
            order.append(self.sorted_by(targets[place - 1].e, wrapped["SortBy"], scope))
        sorting = f" ORDER BY {', '.join(order)}" if order else ""
        return (
            f"SELECT {numbered} FROM ({sides[0]} {operator} {sides[1]}) AS {alias}{group}{sorting}"
            f"{self._limit(body, scope)}"
        ), columns

    def _side(self, text: str, columns: Columns, kinds: list[str]) -> str:
        alias = self.alias("s")
        parts = [
            f"{self.cast(E(f'{alias}.c{i}', kind), wanted).sql} AS c{i}"
            for i, ((_, kind), wanted) in enumerate(zip(columns, kinds, strict=True), 1)
        ]
        return f"SELECT {', '.join(parts)} FROM ({text}) AS {alias}"

    def _values(self, body: Node, scope: Scope) -> tuple[str, Columns]:
        rows = [[self.expression(item, scope) for item in row["List"]["items"]] for row in body["valuesLists"]]
        if len({len(row) for row in rows}) != 1:
            raise SqlFault("VALUES lists must all be the same length")
        kinds = [common([row[i].kind for row in rows], "VALUES") for i in range(len(rows[0]))]
        arms = [
            "SELECT "
            + ", ".join(
                f"{self.coerced(e, kind).sql} AS c{i}" for i, (e, kind) in enumerate(zip(row, kinds, strict=True), 1)
            )
            for row in rows
        ]
        columns = [(f"column{i}", kind) for i, kind in enumerate(kinds, 1)]
        targets = [_Target(name, E(f"c{i}", kind), None) for i, (name, kind) in enumerate(columns, 1)]
        order: list[str] = []
        for wrapped in body.get("sortClause", ()):
            place = self._placed(wrapped["SortBy"]["node"], targets)
            if place is None:
                raise SqlFault("ORDER BY of VALUES takes names of columns alone")
            order.append(self.sorted_by(targets[place - 1].e, wrapped["SortBy"], scope))
        text = " UNION ALL ".join(arms)
        if order or "limitCount" in body or "limitOffset" in body:
            sorting = " ORDER BY " + ", ".join(order) if order else ""
            text = f"SELECT * FROM ({text}){sorting}{self._limit(body, scope)}"
        return text, columns


def _read(alias: str, column: RelationColumn) -> E:
    """A column's value. Of timestamps in arrays the store has a spelling of its own."""
    text = f"{alias}.{column.inside}"
    return E(f"pg_array_plain('timestamp', {text})" if column.kind == "_timestamp" else text, column.kind)


def _is_of_time(node: Node, relation: Relation) -> bool:
    """Whether a condition is one on the time of a made table alone, a range that constants bound."""
    kind, body = only(node)
    if kind == "BoolExpr":
        return body["boolop"] == "AND_EXPR" and all(_is_of_time(part, relation) for part in body["args"])
    if kind != "A_Expr" or body["kind"] not in ("AEXPR_OP", "AEXPR_BETWEEN"):
        return False
    sides = [body.get("lexpr", {}), body["rexpr"]]
    if body["kind"] == "AEXPR_OP" and names_of(body["name"]) not in (["="], ["<"], [">"], ["<="], [">="]):
        return False
    times = [side for side in sides if "ColumnRef" in side]
    others = [side for side in sides if "ColumnRef" not in side]
    if len(times) != 1 or (body["kind"] == "AEXPR_BETWEEN" and times[0] is not sides[0]):
        return False
    fields = times[0]["ColumnRef"]["fields"]
    name = "" if "A_Star" in fields[-1] else names_of(fields)[-1]
    constant = not any(kind in ("ColumnRef", "SubLink") for kind, _ in walk(others))
    return constant and any(column.name == name and column.inside == TIME for column in relation.columns)


def _item(alias: str, name: str, columns: Columns) -> Item:
    return Item(alias, name, [Column(n, E(f"{alias}.c{i}", kind), alias) for i, (n, kind) in enumerate(columns, 1)])


def _alias(body: Node) -> tuple[str, list[str]]:
    alias = body.get("alias")
    return ("", []) if alias is None else (alias["aliasname"], names_of(alias.get("colnames", ())))


def _renamed(columns: Columns, names: list[str], of: str) -> Columns:
    if len(names) > len(columns):
        raise SqlFault(f'table "{of}" has {len(columns)} columns available but {len(names)} columns specified')
    return [(names[i] if i < len(names) else name, kind) for i, (name, kind) in enumerate(columns)]


def _check_names(items: Sequence[Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name and item.name in seen:
            raise SqlFault(f'table name "{item.name}" specified more than once')
        seen.add(item.name)


def _visible(source: _Source) -> list[Column]:
    merged = {column.name for column in source.merged}
    return [
        *source.merged,
        *(column for item in source.items for column in item.columns if column.name not in merged),
    ]


def _one(source: _Source, name: str) -> Column:
    found = [column for column in _visible(source) if column.name == name]
    if len(found) != 1:
        problem = "does not exist in one of its tables" if not found else "appears more than once in one of its tables"
        raise SqlFault(f'column "{name}" specified in USING clause {problem}')
    return found[0]


def _without_twins(item: Item) -> list[Column]:
    names = [column.name for column in item.columns]
    for column in item.columns:
        if names.count(column.name) > 1:
            raise SqlFault(f'column reference "{column.name}" is ambiguous')
    return item.columns


def _is_star(wrapped: Node) -> bool:
    kind, body = only(wrapped["ResTarget"]["val"])
    return kind == "ColumnRef" and "A_Star" in body["fields"][-1]


def _inside(text: str, targets: list[_Target]) -> str:
    """A sorting with the expressions in the place of the results' names."""
    for place, target in enumerate(targets, 1):
        for before, after in ((f"c{place} ", " "), (f"(c{place})", ")"), (f"(c{place},", ",")):
            if text.startswith(before) and not before.startswith("("):
                return target.e.sql + after + text[len(before) :]
            if before.startswith("(") and before in text:
                return text.replace(before, f"({target.e.sql}{after}")
    return text


def _literal_kind(body: Node, place: int, kind: str) -> str:
    """The type of a result column for set operations: a bare literal has none of its own yet."""
    if kind != "text" or "targetList" not in body:
        return kind
    nodes = body["targetList"]
    if any(_is_star(node) for node in nodes) or place >= len(nodes):
        return kind
    inner_kind, inner = only(nodes[place]["ResTarget"]["val"])
    return "unknown" if inner_kind == "A_Const" and ("sval" in inner or inner.get("isnull")) else kind


def _name(node: Node) -> str:
    """What PostgreSQL calls a result without a name."""
    return _named(node)[0] or "?column?"


def _named(node: Node) -> tuple[str, int]:
    """The name and how strong it is (FigureColname)."""
    kind, body = only(node)
    match kind:
        case "ColumnRef":
            return names_of(body["fields"])[-1], 2
        case "A_Indirection":
            return _named(body["arg"])
        case "FuncCall":
            return names_of(body["funcname"])[-1], 2
        case "A_Expr" if body["kind"] == "AEXPR_NULLIF":
            return "nullif", 2
        case "TypeCast":
            name, strength = _named(body["arg"])
            if strength <= 1:
                return names_of(body["typeName"]["names"])[-1], 1
            return name, strength
        case "CollateClause":
            return _named(body["arg"])
        case "CaseExpr":
            if "defresult" in body:
                name, strength = _named(body["defresult"])
                if strength > 1:
                    return name, strength
            return "case", 1
        case "A_ArrayExpr":
            return "array", 2
        case "CoalesceExpr":
            return "coalesce", 2
        case "MinMaxExpr":
            return ("greatest" if body["op"] == "IS_GREATEST" else "least"), 2
        case "SQLValueFunction":
            return body["op"].removeprefix("SVFOP_").removesuffix("_N").lower(), 2
        case "SubLink":
            return _named_subquery(body)
    return "", 0


def _named_subquery(body: Node) -> tuple[str, int]:
    match body["subLinkType"]:
        case "EXISTS_SUBLINK":
            return "exists", 2
        case "ARRAY_SUBLINK":
            return "array", 2
        case "EXPR_SUBLINK":
            inner: Any = body["subselect"]["SelectStmt"]
            while "larg" in inner:
                inner = inner["larg"]
            if inner.get("targetList"):
                target = inner["targetList"][0]["ResTarget"]
                if target.get("name"):
                    return target["name"], 2
                if not _is_star(inner["targetList"][0]):
                    return _named(target["val"])
    return "", 0
