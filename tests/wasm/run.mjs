// Converts fixtures in the browser's machine, and compares what comes out with what the native program writes:
// node run.mjs MODULE.wasm APR ROOT SCRATCH

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [wasm, apr, root, scratch] = process.argv.slice(2);

// A Hugging Face folder of a golden model: its configuration, and weights of its names and shapes.
function checkpoint(golden) {
  const folder = join(scratch, golden.split("/").pop());
  mkdirSync(folder, { recursive: true });
  for (const name of ["config.json", "generation_config.json"]) {
    copyFileSync(join(root, golden, name), join(folder, name));
  }
  const described = JSON.parse(readFileSync(join(root, golden, "tensors.json")));
  const header = {};
  let end = 0;
  for (const { name, shape } of described.files.flatMap((file) => file.tensors)) {
    const begin = end;
    end += 2 * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype: "BF16", shape, data_offsets: [begin, end] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const len = Buffer.alloc(8);
  len.writeBigUInt64LE(BigInt(text.length));
  // Small numbers of either sign, all of them different enough.
  const payload = Buffer.alloc(end);
  for (let at = 0; at < end; at += 2) payload.writeUInt16LE(((at * 40503) & 0x81ff) | 0x3c00, at);
  writeFileSync(join(folder, "model.safetensors"), Buffer.concat([len, text, payload]));
  return folder;
}

// Input, output, and options of both.
const cases = [
  ["plugins/apr/tests/data/every_dtype.apr", "out.apr", {}],
  ["plugins/apr/tests/data/carried.apr", "out.apr", {}],
  ["plugins/ggml-legacy/tests/data/gpt2.bin", "out.apr", {}],
  ["plugins/gguf/tests/data/small.gguf", "out.gguf", { arch: "none" }],
  ["plugins/gguf/tests/data/types.gguf", "out.apr", {}],
  ["plugins/gguf/tests/data/split", "out.apr", {}],
  ["plugins/numpy/tests/data/every_dtype.npz", "out.apr", {}],
  ["plugins/onnx/tests/data/shapes.onnx", "out.apr", {}],
  ["plugins/pytorch/tests/data/state_dict.pth", "out.safetensors", {}],
  ["plugins/safetensors/tests/data/shapes.safetensors", "out.npz", {}],
  [checkpoint("tests/golden/llama"), "out.gguf", {}],
];

// The crate `zip` brings an import for random numbers, which reading an archive never asks for: each throws if it is called.
const compiled = await WebAssembly.compile(readFileSync(wasm));
const imports = {};
for (const { module, name } of WebAssembly.Module.imports(compiled)) {
  imports[module] ??= {};
  imports[module][name] = () => {
    throw new Error(`the module calls ${module}.${name}`);
  };
}
const module = (await WebAssembly.instantiate(compiled, imports)).exports;

function handed(bytes) {
  const at = module.room(bytes.length);
  new Uint8Array(module.memory.buffer, at, bytes.length).set(bytes);
  return [at, bytes.length];
}

function put(path, name) {
  if (statSync(path).isDirectory()) {
    for (const entry of readdirSync(path)) put(join(path, entry), `${name}/${entry}`);
  } else {
    module.put(...handed(Buffer.from(name)), ...handed(readFileSync(path)));
  }
}

function run(request) {
  module.run(...handed(Buffer.from(JSON.stringify(request))));
  const text = new Uint8Array(module.memory.buffer, module.answer(), module.answer_len());
  return JSON.parse(Buffer.from(text).toString());
}

let failed = 0;
for (const [input, output, options] of cases) {
  const path = resolve(root, input);
  const name = input.split("/").pop();
  const folder = join(scratch, `${name}-${output}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const flags = Object.entries(options).flatMap(([key, value]) => [`--${key}`, value]);
  execFileSync(apr, ["convert", path, join(folder, output), "-q", ...flags], { stdio: ["ignore", "ignore", "inherit"] });
  module.clear();
  put(path, name);
  const answer = run({ input: name, output, ...options });
  let verdict = "equal";
  if (answer.error) {
    verdict = `refused: ${answer.error}`;
  } else {
    for (const { name, at, len } of answer.files) {
      const native = readFileSync(join(folder, name));
      const bytes = Buffer.from(new Uint8Array(module.memory.buffer, at, len));
      if (!native.equals(bytes)) verdict = `${name} differs: ${len} bytes, ${native.length} native`;
    }
  }
  if (verdict !== "equal") failed += 1;
  console.log(`${verdict === "equal" ? "ok" : "FAILED"}  ${input} -> ${output}: ${verdict}`);
}
console.log(`${cases.length - failed} of ${cases.length} conversions give the native program's bytes`);
process.exit(failed ? 1 : 0);
