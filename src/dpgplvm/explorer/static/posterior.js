// What every column is predicted to be at a place among the latents, as `predict` of the model computes it.

class Posterior {
  constructor({ fixed, used, inducing, groups, mean, scale }) {
    Object.assign(this, { used, inducing, groups, mean, scale });
    this.nPoints = inducing.shape[0];
    this.x = Float64Array.from(fixed);
    this.values = new Float64Array(this.nPoints);
    for (const group of groups) {
      const { theta } = group;
      group.ard = theta.ard_weights;
      group.slopes = theta.slope_variances;
      group.signal = theta.signal_variance ? theta.signal_variance[0] : 0;
      group.bias = theta.bias_variance ? theta.bias_variance[0] : 0;
      group.whitened = new Float64Array(group.whiten.shape[0] * this.nPoints);
      group.squared = new Float64Array(group.whitened.length);
      group.means = new Float64Array(group.members.length);
      group.variances = new Float64Array(group.members.length);
    }
  }

  // Fills `mean` and `deviation`, each with a number for every column, in the user's units.
  predict(latents, mean, deviation) {
    this.used.forEach((of, q) => { this.x[of] = latents[q]; });
    mean.fill(0);
    deviation.fill(0);
    for (const group of this.groups) {
      this.#functions(group);
      for (let k = 0; k < group.members.length; k++) mean[group.members[k]] += group.shares[k] * group.means[k];
    }
    // A column that may be in several groups is a mixture: their means being apart adds to its variance.
    for (const group of this.groups) {
      for (let k = 0; k < group.members.length; k++) {
        const apart = group.means[k] - mean[group.members[k]];
        deviation[group.members[k]] += group.shares[k] * (group.variances[k] + apart * apart);
      }
    }
    for (let d = 0; d < mean.length; d++) {
      mean[d] = mean[d] * this.scale[d] + this.mean[d];
      deviation[d] = Math.sqrt(deviation[d]) * this.scale[d];
    }
  }

  #functions(group) {
    const { whitened, squared, weights, shrinkage, pattern } = group;
    const n = this.nPoints;
    const height = this.#kernel(group);
    product(group.whiten, this.values, whitened);
    for (let i = 0; i < whitened.length; i++) squared[i] = whitened[i] * whitened[i];
    for (let k = 0; k < group.members.length; k++) {
      const start = pattern[k] * n;
      let mean = 0;
      let explained = 0;
      for (let m = 0, i = k * n; m < n; m++, i++) {
        mean += weights[i] * whitened[start + m];
        explained += shrinkage[i] * squared[start + m];
      }
      group.means[k] = mean;
      group.variances[k] = Math.max(group.prior[k] * height - explained, 0) + group.noise[k];
    }
  }

  // Covariances with the inducing points go to `values`; the variance at the place itself is returned.
  #kernel({ ard, slopes, signal, bias }) {
    const { x, inducing, values } = this;
    for (let m = 0, i = 0; m < values.length; m++) {
      let distance = 0;
      let linear = 0;
      for (let q = 0; q < x.length; q++, i++) {
        const z = inducing[i];
        if (ard) distance += ard[q] * (x[q] - z) * (x[q] - z);
        if (slopes) linear += slopes[q] * x[q] * z;
      }
      values[m] = (ard ? signal * Math.exp(-0.5 * distance) : 0) + linear + bias;
    }
    let height = signal + bias;
    if (slopes) for (let q = 0; q < x.length; q++) height += slopes[q] * x[q] * x[q];
    return height;
  }
}

// Every row of `matrix` times `vector`.
function product(matrix, vector, found) {
  const n = vector.length;
  for (let row = 0, i = 0; row < found.length; row++) {
    let sum = 0;
    for (let m = 0; m < n; m++, i++) sum += matrix[i] * vector[m];
    found[row] = sum;
  }
}
