"""The three models are scikit-learn estimators: its own checks, and what its users do with one."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, FitWarning, Outcome
from dpgplvm.datasets import make_views
from dpgplvm.inference.threads import Threads

# The checks fit tables of a dozen shapes. What they cost is compilation, and a linear kernel needs least of it.
CHEAP = {"n_latents": 1, "n_inducing": 5, "max_iter": 3, "kernel": "linear", "noise": "group", "random_state": 0}
CHECKED = [BayesianGPLVM(**CHEAP), MRD(**CHEAP), DPGPLVM(**CHEAP, truncation=2)]

# predict goes from latents to columns, as for a Gaussian process. These checks hand it the table of the fit, which has
# more columns than there are latents. Each is run below on the same estimator without its predict.
PREDICT_TAKES_LATENTS = dict.fromkeys(
    [
        "check_dict_unchanged",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit_idempotent",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in_after_fitting",
    ],
    "predict takes latents, not rows of the table",
)


class OnlyBayesianGPLVM(BayesianGPLVM):
    predict = property()


class OnlyMRD(MRD):
    predict = property()


class OnlyDPGPLVM(DPGPLVM):
    predict = property()


WITHOUT_PREDICT = [
    pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}-{number}")
    for only, checked in zip((OnlyBayesianGPLVM, OnlyMRD, OnlyDPGPLVM), CHECKED, strict=True)
    for number, (estimator, check) in enumerate(estimator_checks_generator(only(**checked.get_params())))
    if check.func.__name__ in PREDICT_TAKES_LATENTS
]


@pytest.mark.filterwarnings("ignore::dpgplvm.FitWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=lambda _: PREDICT_TAKES_LATENTS, xfail_strict=True)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::dpgplvm.FitWarning")
@pytest.mark.parametrize(("estimator", "check"), WITHOUT_PREDICT)
def test_what_predict_stands_in_the_way_of_passes_without_it(estimator, check):
    check(estimator)


SMALL = {"n_latents": 2, "n_inducing": 8, "kernel": "linear", "random_state": 0}
NAMES = ["hip", "knee", "ankle", "wrist", "elbow", "thumb"]
MODELS = {
    "BayesianGPLVM": lambda **changes: BayesianGPLVM(**{**SMALL, "max_iter": 8, **changes}),
    "MRD": lambda **changes: MRD(**{**SMALL, "max_iter": 8, "views": ["legs"] * 3 + ["arms"] * 3, **changes}),
    "DPGPLVM": lambda **changes: DPGPLVM(**{**SMALL, "max_iter": 2, "tol": 0.0, "truncation": 3, **changes}),
}


@pytest.fixture(scope="module")
def table():
    Y = make_views(30, latents=((0,), (1,)), columns=3, linear=True, noise_variance=0.01, random_state=1).Y
    return pd.DataFrame(Y, columns=NAMES)


@pytest.fixture(scope="module", params=MODELS)
def make(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def fitted(make, table):
    return make().fit(table)


@pytest.fixture(scope="module")
def gplvm(table):
    return MODELS["BayesianGPLVM"]().fit(table)


@pytest.mark.parametrize("model", [BayesianGPLVM, MRD, DPGPLVM])
def test_parameters_are_keywords_with_declared_constraints(model):
    _, *parameters = inspect.signature(model.__init__).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert {parameter.name for parameter in parameters} == model._parameter_constraints.keys()
    assert {parameter.name for parameter in parameters} == model().get_params().keys()


def test_gaps_are_allowed_and_said_to_be(make):
    assert get_tags(make()).input_tags.allow_nan


def test_names_go_in_and_out(fitted, table):
    name = type(fitted).__name__.lower()
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.n_features_in_ == 6
    assert fitted.get_feature_names_out().tolist() == [f"{name}{q}" for q in range(fitted.n_latents_)]


def test_training_rows_are_transformed_as_new_ones_are(gplvm, table):
    assert np.array_equal(clone(gplvm).fit_transform(table), gplvm.transform(table))


def test_a_model_is_a_step_of_a_pipeline(gplvm, table):
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, clone(gplvm), Ridge()).fit(table, table["hip"])
    latents = pipeline[:-1].transform(table)
    assert latents.shape == (30, 2)
    np.testing.assert_allclose(pipeline.predict(table), Ridge().fit(latents, table["hip"]).predict(latents), rtol=1e-9)
    assert pipeline.score(table, table["hip"]) > 0.5


def test_the_number_of_latents_can_be_searched_for(table):
    folds = KFold(2)
    search = GridSearchCV(MODELS["BayesianGPLVM"](), {"n_latents": [1, 2]}, cv=folds).fit(table)
    wanted = [
        [
            MODELS["BayesianGPLVM"](n_latents=q).fit(table.iloc[own]).score(table.iloc[rest])
            for own, rest in folds.split(table)
        ]
        for q in (1, 2)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], np.mean(wanted, axis=1), rtol=1e-9)
    assert search.best_params_["n_latents"] == 1 + int(np.argmax(np.mean(wanted, axis=1)))


def test_a_pickled_model_says_the_same(fitted, table):
    again = pickle.loads(pickle.dumps(fitted))
    assert again.summary() == fitted.summary()
    pd.testing.assert_frame_equal(again.impute(table), fitted.impute(table))
    assert np.array_equal(again.transform(table), fitted.transform(table))


def test_the_random_state_decides(table):
    one, same, other = (MODELS["BayesianGPLVM"](max_iter=0, random_state=seed).fit(table) for seed in (0, 0, 1))
    assert np.array_equal(one.inducing_, same.inducing_)
    assert not np.array_equal(one.inducing_, other.inducing_)


def test_a_warm_start_goes_on_from_the_last_fit(fitted, table):
    model = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True)
    last = model.elbo_, model.groups_.tolist()
    model.fit(table)
    assert model.history_[0] == pytest.approx(last[0], rel=1e-10)
    assert model.elbo_ > last[0]
    assert model.groups_.tolist() == last[1]
    assert model.moves_ == []
    again = clone(fitted).fit(table, start=fitted.state_)
    assert np.array_equal(again.latents_, model.latents_)


def test_a_cold_start_does_not(fitted, table):
    model = pickle.loads(pickle.dumps(fitted)).fit(table)
    assert np.array_equal(model.latents_, fitted.latents_)


def test_the_first_fit_has_nothing_to_go_on_from(gplvm, table):
    assert clone(gplvm).set_params(warm_start=True).fit(table).elbo_ == gplvm.elbo_


@pytest.mark.filterwarnings("ignore::dpgplvm.FitWarning")
@pytest.mark.parametrize("changes", [{"bound": "mixed"}, {"optimiser": "paper"}], ids=str)
def test_the_papers_ways_go_on_too(table, changes):
    model = MODELS["DPGPLVM"](max_iter=20, noise="group", warm_start=True, **changes).fit(table)
    last = model.elbo_
    assert model.fit(table).history_[0] == pytest.approx(last, rel=1e-8)
    assert model.elbo_ > last


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda model, Y: (model, Y[:29]), ["29 rows", "30 rows", "warm_start=False"]),
        (lambda model, Y: (model, Y[NAMES[:5]]), ["5 columns", "'hip'", "warm_start=False"]),
        (lambda model, Y: (model, Y[NAMES[::-1]]), ["6 columns", "'hip', 'knee'", "warm_start=False"]),
        (
            lambda model, Y: (model, Y.mask(np.arange(30)[:, None] == np.full(6, 3))),
            ["nothing observed", "warm_start=False"],
        ),
        (lambda model, Y: (model.set_params(n_latents=1), Y), ["n_latents is 1", "was 2"]),
        (lambda model, Y: (model.set_params(kernel="rbf"), Y), ["kernel is RBF", "was Linear"]),
        (lambda model, Y: (model.set_params(noise="column"), Y), ["noise is 'column'", "was 'group'"]),
        (lambda model, Y: (model.set_params(n_inducing=1), Y), ["n_inducing is 1", "was 2"]),
    ],
    ids=["rows", "columns", "order", "unseen rows", "n_latents", "kernel", "noise", "n_inducing"],
)
def test_a_warm_start_of_something_else_is_refused_and_loses_nothing(gplvm, table, change, says):
    model, Y = change(pickle.loads(pickle.dumps(gplvm)).set_params(warm_start=True), table)
    with pytest.raises(ValueError, match="warm_start=True goes on") as caught:
        model.fit(Y)
    assert all(words in str(caught.value) for words in says), str(caught.value)
    assert model.latents_ is not None
    assert np.array_equal(model.transform(table), gplvm.transform(table))


def test_a_start_of_the_wrong_kind_is_refused(gplvm, table):
    with pytest.raises(TypeError, match="start is a dict: give state_"):
        clone(gplvm).fit(table, start={})


@pytest.mark.parametrize(
    "fit",
    [
        lambda model, Y: model.fit(Y),
        lambda model, Y: model.fit_transform(Y),
        lambda model, Y: make_pipeline(StandardScaler(), model).fit(Y),
        lambda model, Y: make_pipeline(StandardScaler(), model, Ridge()).fit(Y, Y["hip"]),
    ],
    ids=["fit", "fit_transform", "last in a pipeline", "first in a pipeline"],
)
def test_a_warning_points_at_the_line_of_the_user(table, fit):
    with pytest.warns(FitWarning, match="still rising after max_iter=3") as caught:
        fit(MODELS["BayesianGPLVM"](max_iter=3), table)
    assert {warning.filename for warning in caught if issubclass(warning.category, FitWarning)} == {__file__}


def test_a_warning_that_is_an_error_leaves_the_model_fitted(gplvm, table):
    model = clone(gplvm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FitWarning, match="still rising"):
            model.fit(table)
    assert model.outcome_ is Outcome.BUDGET_SPENT
    assert model.elbo_ == gplvm.elbo_


def test_threads_of_predictions_are_as_many_as_there_are_jobs(monkeypatch, table):
    model = MODELS["DPGPLVM"](n_jobs=1).fit(table)
    asked, make_threads = set(), Threads.__init__

    def counting(self, n_threads=None):
        asked.add(n_threads)
        make_threads(self, n_threads)

    monkeypatch.setattr(Threads, "__init__", counting)
    found = {}
    for n_jobs in (1, 2, None):
        asked.clear()
        model.set_params(n_jobs=n_jobs)
        found[n_jobs] = [model.transform(table), model.score_samples(table), model.predict(model.latents_).to_numpy()]
        assert asked == {n_jobs}
    for one, other in zip(found[1] * 2, found[2] + found[None], strict=True):
        assert np.array_equal(one, other)
