"""What a caller sees of a catalogue is what the policy says of each thing in it, whoever asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thalweg.auth.policy import Action, may
from thalweg.auth.visibility import seen_by, sees_workspace
from thalweg.domain.access import NO_GRANTS, SERVER, Principal, Resource, Role, Scope
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Series, Track, Unit, Workspace
from thalweg.domain.snapshot import Catalogue

READER = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)


def catalogue(
    public: tuple[bool, ...] = (True, False),
    *,
    workspace: bool = True,
    networks: tuple[tuple[bool, tuple[int, ...]], ...] = (),
    guests: dict[Scope, Role] | None = None,
) -> Catalogue:
    """Procedures 1, 2, … each with a property, unit, feature, track and an offering of its own (numbers + 100)."""
    numbers = range(1, len(public) + 1)
    offerings = {
        n + 100: Offering(n + 100, "", f"own{n}", f"own{n}", procedure_id=n, procedure_ids=(n,)) for n in numbers
    }
    for number, (is_public, members) in enumerate(networks, 201):
        offerings[number] = Offering(number, "", f"net{number}", f"net{number}", "", None, members, True, is_public)
    return Catalogue(
        Workspace(1, "", "default", public=workspace, generation=50),
        units={n: Unit(n, f"u{n}") for n in numbers},
        properties={n: ObservedProperty(n, "", f"property{n}", f"property{n}") for n in numbers},
        features={n: Feature(n, "", f"feature{n}", f"feature{n}") for n in [*numbers, 99]},
        procedures={
            n: Procedure(
                n, "", f"p{n}", f"p{n}", "", series=(Series(n, n),), feature_id=n, generation=n, public=public[n - 1]
            )
            for n in numbers
        },
        offerings=offerings,
        tracks={n: Track(n, n, n) for n in numbers},
        guests=guests or {},
    )


def test_everything_public_is_seen_as_it_is() -> None:
    open_one = catalogue((True, True))
    assert seen_by(open_one, READER) is open_one
    assert seen_by(open_one, NOBODY) is None
    assert seen_by(open_one, Principal("ann", Role.NOTHING, guest_role=Role.VIEWER)) is open_one


def test_what_is_private_is_there_for_those_with_a_role_alone() -> None:
    mixed = catalogue()
    for principal in (
        Principal("ann", Role.VIEWER),
        Principal("ann", Role.NOTHING, grants={Scope(1): Role.VIEWER}),
    ):
        assert seen_by(mixed, principal) is mixed
    seen = seen_by(mixed, READER)
    assert seen is not None
    assert list(seen.procedures) == [1]
    assert (list(seen.properties), list(seen.units), list(seen.tracks), list(seen.offerings)) == ([1], [1], [1], [101])
    # What no visible procedure has may be of a hidden one.
    assert list(seen.features) == [1]
    assert seen.procedure("p2") is None
    assert seen.feature("feature2") is None
    assert seen.match_properties("property2") == ()
    granted = seen_by(mixed, Principal("ann", Role.NOTHING, grants={Scope(1, "procedure", 2): Role.VIEWER}))
    assert granted is not None
    assert list(granted.procedures) == [2]


def test_pictures_are_made_once_for_each_set_of_things_seen() -> None:
    mixed = catalogue()
    assert seen_by(mixed, READER) is seen_by(mixed, Principal("", Role.DATA_MANAGER))
    one = Principal("ann", Role.NOTHING, grants={Scope(1, "procedure", 2): Role.VIEWER})
    two = Principal("bob", Role.NOTHING, grants={Scope(1, "procedure", 2): Role.ADMIN, Scope(2): Role.ADMIN})
    assert seen_by(mixed, one) is seen_by(mixed, two)
    assert seen_by(mixed, READER).key != seen_by(mixed, one).key != mixed.key  # type: ignore[union-attr]


def test_a_network_shows_its_visible_members_and_hides_with_the_last() -> None:
    mixed = catalogue((True, False, False), networks=((True, (1, 2)), (True, (2, 3)), (False, (1,)), (True, ())))
    seen = seen_by(mixed, READER)
    assert seen is not None
    assert seen.offerings[201].procedure_ids == (1,)
    assert list(seen.offerings) == [101, 201, 204]
    member = seen_by(mixed, Principal("ann", Role.NOTHING, grants={Scope(1, "offering", 202): Role.VIEWER}))
    assert member is not None
    assert list(member.procedures) == [2, 3]
    assert set(member.offerings) == {102, 103, 201, 202}


def test_generation_shown_tells_nothing_of_what_is_hidden() -> None:
    mixed = catalogue((True, True, False))
    seen = seen_by(mixed, READER)
    assert seen is not None
    assert (mixed.shown_generation, seen.shown_generation, seen.generation) == (50, 2, 50)


ROLES = st.sampled_from(list(Role))
SCOPES = st.one_of(
    st.builds(Scope, st.sampled_from((1, 2))),
    st.builds(lambda n: Scope(1, "procedure", n), st.integers(1, 4)),
    st.builds(lambda n: Scope(1, "offering", n), st.sampled_from((101, 102, 201, 202))),
)
GRANTS = st.dictionaries(SCOPES, ROLES, max_size=3)
PRINCIPALS = st.one_of(
    st.builds(Principal, st.just(""), ROLES),
    st.builds(Principal, st.just("ann"), ROLES, ROLES, st.one_of(st.just(NO_GRANTS), GRANTS)),
)
NETWORKS = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(1, 4), unique=True).map(tuple)), min_size=2, max_size=2
).map(tuple)


@given(st.tuples(*[st.booleans()] * 4), st.booleans(), NETWORKS, st.one_of(st.just({}), GRANTS), PRINCIPALS)
def test_a_view_holds_exactly_what_the_policy_permits(
    public: tuple[bool, ...],
    workspace: bool,
    networks: tuple[tuple[bool, tuple[int, ...]], ...],
    guests: dict[Scope, Role],
    principal: Principal,
) -> None:
    whole = catalogue(public, workspace=workspace, networks=networks, guests=guests)
    seen = seen_by(whole, principal)
    permitted = [i for i, p in whole.procedures.items() if may(principal, Action.READ, whole.resource_of(p))]
    assert ([] if seen is None else list(seen.procedures)) == permitted
    if seen is not None:
        for offering in seen.offerings.values():
            assert set(offering.procedure_ids) <= set(permitted)
        assert {s.property_id for p in seen.procedures.values() for s in p.series} <= set(seen.properties)
    told = sees_workspace(whole.workspace, principal)
    assert told is None or told == (seen is not None)


def test_a_role_is_the_greatest_that_applies() -> None:
    ann = Principal(
        "ann", Role.VIEWER, Role.NOTHING, {Scope(1): Role.DATA_MANAGER, Scope(1, "procedure", 7): Role.NETWORK_MANAGER}
    )
    assert not may(ann, Action.INSERT, SERVER)
    assert may(ann, Action.INSERT, Resource(1))
    assert not may(ann, Action.INSERT, Resource(2))
    assert not may(ann, Action.REGISTER, Resource(1, "procedure", 6, False))
    assert may(ann, Action.REGISTER, Resource(1, "procedure", 7, False))
    assert not may(ann, Action.REGISTER, Resource(2, "procedure", 7))
    assert may(ann, Action.READ, Resource(9, "layer", 1, False))
    # What a procedure belongs to counts for it.
    bob = Principal("bob", Role.NOTHING, grants={Scope(1, "offering", 3): Role.DATA_MANAGER})
    assert may(bob, Action.INSERT, Resource(1, "procedure", 5, False, within=(("offering", 3),)))
    assert not may(bob, Action.INSERT, Resource(1, "procedure", 5, False))


def test_anonymous_rights_count_for_public_things_alone() -> None:
    assert may(READER, Action.READ, Resource(1, "procedure", 1))
    assert not may(READER, Action.READ, Resource(1, "procedure", 1, False))
    assert not may(Principal("", Role.ADMIN), Action.READ, Resource(1, "procedure", 1, False))
    # Nobody gains by leaving credentials off, nor by having an account without a role.
    known = Principal("ann", Role.NOTHING, guest_role=Role.DATA_MANAGER)
    assert may(known, Action.INSERT, Resource(1, "procedure", 1))
    assert not may(known, Action.READ, Resource(1, "procedure", 1, False))
    assert may(READER, Action.READ, Resource(1, "procedure", 1, False, guests=Role.VIEWER))
