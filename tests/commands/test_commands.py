"""The command line as a user meets it: real processes, real files, a real model."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import COLUMNS, read

import dpgplvm
from dpgplvm.commands import main


def test_fit_saves_what_it_prints(folder, model, frame):
    assert (folder / "out").read_text() == f"{model.summary()}\n"
    given = {"n_latents": 2, "n_inducing": 8, "max_iter": 5, "random_state": 0}
    assert type(model) is dpgplvm.BayesianGPLVM
    assert given.items() <= model.get_params().items()
    assert list(model.feature_names_in_) == COLUMNS
    np.testing.assert_array_equal(np.where(frame.isna(), np.nan, model.impute()), frame)


def test_progress_is_on_stderr(folder, frame):
    first, *_, last = (folder / "err").read_text().splitlines()
    gaps = frame.isna()
    assert first == (
        f"dpgplvm: table.csv: 30 rows, 6 columns, gaps: {gaps.sum(axis=None)} ({gaps.mean(axis=None):.1%})"
    )
    assert last == "dpgplvm: the model is in model.dpgplvm"


def test_summary(here, model, capsys):
    assert main(["summary", "model.dpgplvm"]) == 0
    assert capsys.readouterr() == (f"{model.summary()}\n", "")
    assert main(["summary", "model.dpgplvm", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bound"] == model.elbo_
    assert told["parameters"]["n_latents"] == 2
    assert [column["name"] for column in told["columns"]] == COLUMNS
    assert [column["relevance"] for column in told["columns"]] == model.relevance_.tolist()
    assert told["groups"] == [{"name": "all columns", "columns": COLUMNS}]


@pytest.mark.parametrize("name", ["columns.csv", "columns.tsv", "columns.parquet", "columns.csv.gz"])
def test_a_table_of_the_columns(here, model, capsys, name):
    assert main(["summary", "model.dpgplvm", "--columns", name]) == 0
    assert capsys.readouterr() == (f"{model.summary()}\n", "")
    if name.endswith(".parquet"):
        got = pd.read_parquet(name)
    else:
        got = pd.read_csv(name, sep="\t" if name.endswith(".tsv") else ",", index_col="column")
    pd.testing.assert_frame_equal(got, model.to_frame().columns)


def test_a_table_of_the_columns_alone(here, model, capsysbinary):
    assert main(["summary", "model.dpgplvm", "--columns", "-"]) == 0
    assert capsysbinary.readouterr().out.decode() == model.to_frame().columns.to_csv()


def test_latents_and_back(here, model, frame, capsys):
    command = ["transform", "model.dpgplvm", "table.csv", "--index-col", "id", "-o", "latents.csv", "--std", "std.csv"]
    assert main(command) == 0
    latents, std = read("latents.csv", index_col="id"), read("std.csv", index_col="id")
    inferred = model.infer(frame)
    np.testing.assert_array_equal(latents, inferred.mean)
    np.testing.assert_array_equal(std, np.sqrt(inferred.variance))
    latents[latents.columns[::-1]].to_csv("reversed.csv")
    index = ["--index-col", "id"]
    output = ["-o", "columns.csv", "--std", "spread.csv", "--quantiles", "0.1,0.9"]
    assert main(["predict", "model.dpgplvm", "reversed.csv", "--latent-std", "std.csv", *index, *output]) == 0
    mean, spread = model.predict(inferred.mean, variance=np.sqrt(inferred.variance) ** 2, return_std=True)
    quantiles = model.predict_quantiles(inferred.mean, (0.1, 0.9), variance=np.sqrt(inferred.variance) ** 2)
    expected = {"columns": mean, "spread": spread, "columns_q0.1": quantiles[0], "columns_q0.9": quantiles[1]}
    for name, values in expected.items():
        got = read(f"{name}.csv", index_col="id")
        assert list(got.columns) == COLUMNS
        assert got.index.equals(frame.index)
        np.testing.assert_array_equal(got, values)
    assert capsys.readouterr() == ("", "")


def test_columns_that_the_model_does_not_know_are_left_out(here, model, frame, capsys):
    frame.assign(school="Pasteur", age=7).to_csv("more.csv")
    assert main(["transform", "model.dpgplvm", "more.csv", "--index-col", "id", "-o", "latents.csv"]) == 0
    assert capsys.readouterr().err == ("dpgplvm: more.csv: left out 'school', 'age', which the model does not know\n")
    np.testing.assert_array_equal(read("latents.csv", index_col="id"), model.transform(frame))
    frame.rename(columns={"neck": "head"}).to_csv("renamed.csv")
    assert main(["transform", "model.dpgplvm", "renamed.csv", "--index-col", "id"]) == 2
    assert "error: Y lacks column 'neck'" in capsys.readouterr().err
    read("latents.csv", index_col="id").assign(place=3).to_csv("placed.csv")
    assert main(["predict", "model.dpgplvm", "placed.csv", "-o", "columns.csv", "-q"]) == 0
    np.testing.assert_array_equal(read("columns.csv"), model.predict(model.transform(frame)))


def test_without_a_table_it_is_that_of_the_fit(here, model, frame):
    for command in ("transform", "impute", "predict"):
        assert main([command, "model.dpgplvm", "-o", f"{command}.csv", "-q"]) == 0
    expected = {
        "transform": model.latents_,
        "impute": model.impute(),
        "predict": model.predict(model.latents_, variance=model.latent_variance_),
    }
    for command, values in expected.items():
        got = read(f"{command}.csv", index_col="id")
        assert got.index.tolist() == frame.index.tolist()
        np.testing.assert_array_equal(got, values)


def test_quantiles_of_gaps(here, model, frame):
    """In the order of the file's columns, which is not the model's."""
    frame[COLUMNS[::-1]].to_csv("turned.csv", index=False)
    assert main(["impute", "model.dpgplvm", "turned.csv", "-o", "filled.csv", "--quantiles", "0.025,0.975", "-q"]) == 0
    assert main(["impute", "model.dpgplvm", "turned.csv", "-o", "f.csv.gz", "--quantiles", "0.025", "-q"]) == 0
    assert gzip.decompress(Path("f_q0.025.csv.gz").read_bytes()) == Path("filled_q0.025.csv").read_bytes()
    for quantile, expected in zip(("0.025", "0.975"), model.impute_quantiles(frame, (0.025, 0.975)), strict=True):
        got = read(f"filled_q{quantile}.csv")
        assert list(got.columns) == COLUMNS[::-1]
        np.testing.assert_array_equal(got[COLUMNS], expected)


def test_views(here, capsys):
    views = ["arms", "legs", "legs", "arms", "arms", "legs"]
    pd.DataFrame({"view": views, "column": COLUMNS}).to_csv("views.csv", index=False)
    options = ["--n-latents", "2", "--n-inducing", "8", "--max-iter", "1", "--random-state", "0", "-q"]
    assert main(["fit", "table.csv", "--index-col", "id", "--views", "views.csv", *options, "-o", "mrd.dpgplvm"]) == 0
    model = dpgplvm.load("mrd.dpgplvm")
    assert type(model) is dpgplvm.MRD
    assert model.groups_.tolist() == [0, 1, 1, 0, 0, 1]
    assert main(["summary", "mrd.dpgplvm", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["groups"]
    assert [group["name"] for group in groups] == ["arms", "legs"]


@pytest.mark.slow
def test_demo_to_the_end(here, capsys):
    assert main(["demo", "--quick", "-o", "shown"]) == 0
    out = capsys.readouterr().out
    for name in ("table.csv", "model.dpgplvm", "report.html", "explorer.html"):
        assert os.path.getsize(os.path.join("shown", name)) > 1000
        assert os.path.join("shown", name) in out
    for k in range(dpgplvm.load("shown/model.dpgplvm").n_groups_):
        assert f"\ngroup {k}: " in out
    assert main(["transform", "shown/model.dpgplvm", "shown/table.csv", "-o", "shown/latents.csv"]) == 0
    assert len(read("shown/latents.csv")) == len(read("shown/table.csv"))
