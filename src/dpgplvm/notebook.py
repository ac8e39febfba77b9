"""A fitted model in a notebook: its groups as a small table, below what scikit-learn shows of every estimator."""

from __future__ import annotations

from html import escape
from typing import Any

from dpgplvm.summary import groups_of, headlines, listed_columns, remarks, short

_MOST_CHARACTERS, _MOST_NAMES = 40, 30


def html(model: Any) -> str:
    """The summary as HTML. Names come from users: nothing of them is markup."""
    latents = "".join(f"<th>latent {q}</th>" for q in range(model.n_latents_))
    rows = []
    for group in groups_of(model):
        shares = "".join(_share(share) for share in group.by_latent)
        every_name = ", ".join(model._names[d] for d in group.members)
        rows.append(
            f"<tr><th>{escape(short(group.name, _MOST_CHARACTERS))}</th><td>{len(group.members)}</td>"
            f"<td>{group.noise:.3f}</td><td>{group.explained:.0%}</td>{shares}"
            f'<td style="text-align: left" title="{escape(every_name)}">'
            f"{escape(listed_columns(model, group.members, _MOST_NAMES))}</td></tr>"
        )
    return (
        f"<div>{_paragraphs(headlines(model))}<table><thead><tr><th>group</th><th>columns</th><th>noise</th>"
        f'<th>explained</th>{latents}<th style="text-align: left">names</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>{_paragraphs(remarks(model))}</div>"
    )


def _share(share: float) -> str:
    """A cell that is the darker the larger the share."""
    return f'<td style="background: rgba(31, 119, 180, {0.6 * share:.2f})">{share:.0%}</td>'


def _paragraphs(lines: list[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)
