"""What pictures show is what the model says, and what cannot be drawn is refused in a sentence."""

import copy

import numpy as np
import pytest
from legible import assert_legible
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from plotted import five_columns, skeleton_of, thirty_columns

from dpgplvm import Skeleton, plots
from dpgplvm.plots.style import colours, plain


@pytest.fixture(scope="module")
def model():
    return thirty_columns()


@pytest.fixture(scope="module")
def simple():
    return five_columns()


@pytest.fixture
def ax():
    return Figure(figsize=(8, 8), layout="constrained").add_subplot()


@pytest.fixture
def space():
    return Figure(layout="constrained").add_subplot(projection="3d")


def sorted_by_group(model):
    return sorted(range(len(model.groups_)), key=lambda d: (model.groups_[d], d))


def test_matrices_have_columns_by_group_and_their_names(model, ax):
    plots.relevance(model, ax=ax)
    order = sorted_by_group(model)
    np.testing.assert_array_equal(ax.images[0].get_array(), model.relevance_[order])
    assert [label.get_text() for label in ax.get_yticklabels()] == [plain(model._names[d]) for d in order]


def test_assignments_are_probabilities(model, ax):
    shown = plots.assignments(model, ax=ax).images[0].get_array()
    np.testing.assert_allclose(shown.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shown.argmax(axis=1), np.sort(model.groups_))


def test_weights_are_averaged_over_groups(model, ax):
    shown = plots.ard_weights(model, ax=ax).images[0].get_array()
    for line, d in enumerate(sorted_by_group(model)):
        each = [
            p * w for p, w in zip(model.group_probabilities_[d], model.kernel_parameters_["ard_weights"], strict=True)
        ]
        np.testing.assert_allclose(shown[line], sum(each))


def test_coassignment_is_sorted_both_ways(model, ax):
    shown, order = plots.coassignment(model, ax=ax).images[0].get_array(), sorted_by_group(model)
    assert shown[3, 17] == model.coassignment_[order[3], order[17]]
    np.testing.assert_array_equal(shown, shown.T)


def test_explained_adds_up(model, ax):
    plots.explained(model, ax=ax)
    coloured = [bar for bars in ax.containers[1:] for bar in bars]
    for k in range(model.n_groups_):
        own = [bar for bar in coloured if bar.get_y() < k < bar.get_y() + bar.get_height()]
        ends = max(bar.get_x() + bar.get_width() for bar in own)
        assert ends == pytest.approx(model.explained_by_latent_[model.groups_ == k].sum(axis=1).mean())


def test_moves_that_were_kept_are_dots_with_their_groups(model, ax):
    plots.bound(model, ax=ax)
    kept = [move for move in model.moves_ if move.accepted]
    dots = np.concatenate([line.get_ydata() for line in ax.lines if str(line.get_label()).endswith(", kept")] or [[]])
    assert sorted(dots) == sorted(move.corrected_after for move in kept)
    assert {text.get_text() for text in ax.texts} <= {str(move.groups_after) for move in kept}
    end = next(line for line in ax.lines if line.get_label() == "in the end")
    assert end.get_ydata() == [model.corrected_bound_]


def test_climb_is_the_history(simple, ax):
    np.testing.assert_array_equal(plots.bound(simple, ax=ax).lines[0].get_ydata(), simple.history_)


def test_every_profile_is_a_branch_and_has_its_colour(model, ax):
    plots.dendrogram(model, ax=ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == sorted(plain(name) for name in model._names)
    (branches,) = ax.collections
    heights = [segment[1, 0] for segment in branches.get_segments()]
    np.testing.assert_allclose(sorted(heights), np.sort(model.profile_linkage_[:, 2]))
    shown = {tuple(np.round(colour[:3], 6)) for colour in branches.get_colors()}
    large = [k for k in range(model.n_profiles_) if (model.profiles_ == k).sum() > 1]
    assert {tuple(np.round(to_rgb(colours(model.n_profiles_)[k]), 6)) for k in large} <= shown


def test_rows_are_where_their_latents_are_and_unobserved_ones_are_left_out(model, ax):
    plots.latents(model, latents=(1, 0), ax=ax)
    places = ax.collections[-1].get_offsets()
    np.testing.assert_array_equal(places, model.latents_[:-1][:, [1, 0]])


def test_background_is_the_spread_of_predictions(model, ax):
    plots.latents(model, latents=(0, 1), ax=ax)
    image = ax.images[0]
    left, _, _, high = image.get_extent()
    corner = model.latents_.mean(axis=0, keepdims=True)
    corner[0, :2] = left, high
    _, std = model.predict(corner, return_std=True)
    own = np.asarray(std)[0] / model._learned.std(axis=0, where=~np.isnan(model._learned))
    assert image.get_array()[-1, 0] == pytest.approx(np.sqrt(np.mean(own**2)))


def test_a_path_for_every_sequence(simple, ax):
    labels = np.repeat(["a", "b"], [12, 8])
    plots.latents(simple, sequence=labels, ax=ax)
    lengths = [len(line.get_xdata()) for line in ax.lines]
    assert lengths == [12, 1, 8, 1]


def test_predictions_are_those_of_the_rows_in_which_the_column_was_seen(model, ax):
    plots.predicted(model, 4, ax=ax)
    dots = next(line for line in ax.lines if line.get_label() == "predicted")
    table = model._rows(None)[1]
    seen = ~np.isnan(table[:, 4])
    np.testing.assert_array_equal(dots.get_xdata(), table[seen, 4])
    expected = model.predict(model.latents_, variance=model.latent_variance_).to_numpy()[seen, 4]
    np.testing.assert_allclose(dots.get_ydata(), expected)


@pytest.mark.parametrize("again", [False, True])
def test_gaps_are_filled_as_impute_fills_them(model, ax, again):
    Y = model._table(model._rows(None)[1]) if again else None
    plots.gaps(model, model._names[3], Y, ax=ax)
    filled = next(line for line in ax.lines if str(line.get_label()).startswith("filled"))
    rows = filled.get_xdata()
    np.testing.assert_array_equal(rows, np.flatnonzero(np.isnan(model._rows(None)[1][:, 3])))
    (median,) = model.impute_quantiles(quantiles=[0.5])
    np.testing.assert_allclose(filled.get_ydata(), median.to_numpy()[rows, 3])


def test_a_joint_is_divided_among_the_groups_of_its_columns(model, ax):
    joints = skeleton_of(model)
    plots.skeleton(model, joints, row=2, ax=ax)
    halves = ax.collections[-2:]
    groups = model.groups_[joints.columns(model._names)]
    assert (groups[:, 0] != groups[:, 1]).any(), "there is something to divide"
    for axis, dots in enumerate(halves):
        shown = dots.get_facecolors()[:, :3]
        np.testing.assert_allclose(shown, [colours(model.n_groups_)[k] for k in groups[:, axis]])
    left, right = (dots.get_paths()[0].vertices[:, 0] for dots in halves)
    assert left.max() <= 1e-9
    assert right.min() >= -1e-9
    filled = model.impute().to_numpy()[2].reshape(-1, 2) * [1, -1]
    np.testing.assert_allclose(halves[0].get_offsets(), filled)
    assert len(ax.get_legend().get_texts()) == model.n_groups_


def test_paths_of_divided_joints_have_all_their_colours(model, ax):
    joints = skeleton_of(model)
    plots.skeleton(model, joints, span=2, row=5, ax=ax)
    groups = model.groups_[joints.columns(model._names)]
    paths = [line for line in ax.lines if len(line.get_xdata()) == 5]
    assert len(paths) == sum(len(set(own)) for own in groups.tolist())


def test_a_body_in_space_stands_upright(model, space):
    joints = Skeleton({"a": (0, 1, 2), "b": (3, 4, 5)}, [("a", "b")], up="-y")
    plots.skeleton(model, joints, row=0, ax=space)
    bone = next(line for line in space.lines if len(line.get_data_3d()[0]) == 2)
    filled = model.impute().to_numpy()[0]
    np.testing.assert_allclose(bone.get_data_3d()[2], [-filled[1], -filled[4]])


def test_poses_are_predictions_on_a_grid(model, ax):
    joints = skeleton_of(model)
    plots.poses(model, joints, steps=3, ax=ax)
    bones = [collection for collection in ax.collections if hasattr(collection, "get_segments")]
    assert len(bones) == 9
    lowest = model.latents_.mean(axis=0, keepdims=True)
    lowest[0, :2] = model.latents_[:-1, :2].min(axis=0)
    pose = model.predict(lowest).to_numpy().reshape(-1, 2) * [1, -1]
    chain = np.array([segment[0] for segment in bones[0].get_segments()])
    for drawn, true in zip(chain.T, pose[:-1].T, strict=True):
        assert np.corrcoef(drawn, true)[0, 1] == pytest.approx(1.0)


def test_poses_where_a_latent_does_not_vary(simple, ax):
    still = copy.copy(simple)
    still.latents_ = np.zeros_like(simple.latents_)
    plots.poses(still, skeleton_of(still), steps=3, ax=ax)
    assert_legible(ax.figure)


@pytest.mark.parametrize("picture", [plots.skeleton, plots.poses])
def test_what_is_no_skeleton_is_refused(model, ax, picture):
    with pytest.raises(TypeError, match=r"skeleton is a dict: give a dpgplvm\.Skeleton"):
        picture(model, {"knee": (0, 1)}, ax=ax)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, ax: plots.latents(m, latents=(0, 9), ax=ax), r"names latent 9, but the model has \d"),
        (lambda m, ax: plots.latents(m, latents=(0, 0), ax=ax), "give 1 or 2 or 3 different numbers"),
        (lambda m, ax: plots.latents(m, colour=[1, 2], ax=ax), r"colour has shape \(2,\): give one value for each of"),
        (lambda m, ax: plots.latents(m, sequence=[1, 2], ax=ax), r"sequence has shape \(2,\)"),
        (lambda m, ax: plots.predicted(m, "knee", ax=ax), "column='knee' is not in the table of 30 columns"),
        (lambda m, ax: plots.gaps(m, 30, ax=ax), "column=30 is not in the table"),
        (lambda m, ax: plots.bound(m, of="all", ax=ax), "of='all': give"),
        (lambda m, ax: plots.ard_weights(m, parameter="signal_variance", ax=ax), "give one of ard_weights"),
        (lambda m, ax: plots.skeleton(m, skeleton_of(m), row=99, ax=ax), "row=99 is not in the table of 25 rows"),
        (lambda m, ax: plots.skeleton(m, skeleton_of(m), latent=5, ax=ax), "names latent 5"),
        (lambda m, ax: plots.poses(m, skeleton_of(m), steps=0, ax=ax), "steps=0: give a whole number"),
        (lambda m, ax: plots.poses(m, Skeleton({"a": ("u", "v")}), ax=ax), "2 columns 'u', 'v', which the table of 30"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(model, ax, call, said):
    with pytest.raises(ValueError, match=said):
        call(model, ax)


def test_axes_must_fit_the_picture(model, ax, space):
    with pytest.raises(ValueError, match="ax has 3 dimensions and this picture 2"):
        plots.relevance(model, ax=space)
    with pytest.raises(TypeError, match="ax is a Figure: give matplotlib Axes"):
        plots.relevance(model, ax=ax.figure)


def test_a_model_without_moves_has_none_to_show(simple):
    with pytest.raises(ValueError, match='of="moves", but the model tried none'):
        plots.bound(simple, of="moves")
