// What the page was told: JSON, in which an array is its type, its shape and its bytes in base64.

const KINDS = { float64: Float64Array, float32: Float32Array, int32: Int32Array };

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

function told() {
  const text = document.getElementById("told").textContent;
  return JSON.parse(text, (_, value) => {
    if (!value || typeof value !== "object" || !("data" in value)) return value;
    const array = new KINDS[value.type](bytes(value.data).buffer);
    array.shape = value.shape;
    return array;
  });
}
