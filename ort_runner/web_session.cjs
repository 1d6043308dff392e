// One session of onnxruntime-web, run by web_session.py: messages on stdin, replies on stdout, as in frames.py.
//
// The session runs in a worker thread, so that the end of stdin, which is that of the parent, ends a busy model, too.

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");

const PACKAGE = "onnxruntime-web";
const LENGTH = 8; // bytes of the length of a header

// The types in messages, which onnxruntime-web has under the same names, and the arrays that hold them.
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  int16: Int16Array,
  int8: Int8Array,
  uint64: BigUint64Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

/** The package as the working folder or NODE_PATH has it. */
function load() {
  return createRequire(path.join(process.cwd(), "any.js"))(PACKAGE);
}

function bytesOf(type, dims) {
  return dims.reduce((product, dim) => product * dim, ARRAYS[type].BYTES_PER_ELEMENT);
}

function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

/** Write one message, and the arrays of tensors by name. */
function send(message, tensors = {}) {
  const entries = Object.entries(tensors);
  const odd = entries.find(([, { type }]) => !(type in ARRAYS));
  if (odd) throw new Error(`output '${odd[0]}' is of type ${odd[1].type}`);
  const arrays = entries.map(([name, tensor]) => [name, tensor.type, [...tensor.dims]]);
  const header = Buffer.from(JSON.stringify({ message, arrays }));
  const length = Buffer.alloc(LENGTH);
  length.writeBigUInt64LE(BigInt(header.length));
  write(Buffer.concat([length, header]));
  for (const [, { data }] of entries) write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}

/** The array of one input: its bytes, copied to where a typed array may begin. */
function arrayOf(type, bytes) {
  return new ARRAYS[type](new Uint8Array(bytes).buffer);
}

/** Answer messages: one "open" with the paths of the model and of its weights, then "run" with inputs. */
function serve() {
  const ort = load();
  ort.env.wasm.numThreads = 1;
  let session = null;

  async function answer({ message, arrays }, bytes) {
    if (message.do === "open") {
      const externalData = message.external.map(([name, file]) => ({ path: name, data: fs.readFileSync(file) }));
      const options = {
        executionProviders: ["wasm"],
        graphOptimizationLevel: message.optimize ? "all" : "disabled",
        logSeverityLevel: 4,
        externalData,
      };
      session = await ort.InferenceSession.create(fs.readFileSync(message.model), options);
      return send({});
    }
    const inputs = {};
    let at = 0;
    for (const [name, type, dims] of arrays) {
      const count = bytesOf(type, dims);
      inputs[name] = new ort.Tensor(type, arrayOf(type, bytes.subarray(at, at + count)), dims);
      at += count;
    }
    return send({}, await session.run(inputs));
  }

  parentPort.on("message", async ([header, bytes]) => {
    try {
      await answer(header, bytes);
    } catch (error) {
      send({ error: String(error?.message ?? error) });
    }
  });
}

/** Read messages from stdin, and give each to the worker: its header, and the bytes of all its arrays. */
async function listen() {
  const worker = new Worker(__filename);
  let held = Buffer.alloc(0);
  const chunks = process.stdin[Symbol.asyncIterator]();

  async function exactly(count) {
    const parts = [held];
    let size = held.length;
    while (size < count) {
      const { value, done } = await chunks.next();
      if (done) process.exit(0);
      parts.push(value);
      size += value.length;
    }
    const whole = Buffer.concat(parts);
    held = whole.subarray(count);
    return whole.subarray(0, count);
  }

  for (;;) {
    const length = (await exactly(LENGTH)).readBigUInt64LE();
    const header = JSON.parse((await exactly(Number(length))).toString());
    const count = header.arrays.reduce((sum, [, type, dims]) => sum + bytesOf(type, dims), 0);
    worker.postMessage([header, await exactly(count)]);
  }
}

if (process.argv[2] === "find") console.log(createRequire(path.join(process.cwd(), "any.js")).resolve(PACKAGE));
else if (isMainThread) listen();
else serve();
