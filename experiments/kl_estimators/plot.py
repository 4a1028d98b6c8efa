"""Draws how far the gradient of each KL term is from the two it could have.

  python -m experiments.kl_estimators.plot    redraws figure.png from the results beside it
"""

import pathlib

from matplotlib.figure import Figure

from grpo.study import frames
from grpo.study import plots

HERE = pathlib.Path(__file__).resolve().parent


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  horizons = [h for h, in frames.unique(rows, 'horizon')]
  fig, axes_HN = plots.new(len(horizons), 2, height=2.4)
  distance = max(r['distance'] for r in rows)
  for line, horizon in zip(axes_HN, horizons):
    chosen = frames.where(rows, horizon=horizon, distance=distance)
    labels = [f"{r['arm']}, {r['place']}, {r['data']} policy".replace('importance_weighted_k3',
                                                                      'weighted k3')
              for r in chosen]
    for ax, column, title in zip(line, ('error_reverse', 'error_forward'),
                                 ('KL(policy || ref)', 'KL(ref || policy)')):
      ax.barh(range(len(chosen)), [r[column] for r in chosen],
              color=['#0072B2' if r['place'] == 'loss' else '#D55E00' for r in chosen])
      ax.set_yticks(range(len(chosen)), labels if ax is line[0] else [''] * len(chosen),
                    fontsize=5.5)
      ax.invert_yaxis()
      ax.set_title(f'against {title}, {horizon:g} steps, distance {distance:g}')
      ax.set_xlabel('relative error of the gradient')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
