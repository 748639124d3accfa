// Every call of the protocol from JavaScript, with stubs made from the .proto files at run time.
// Environment: TANDEM_ADDRESS (gRPC), TANDEM_PROTO (folder of the .proto files).

import assert from 'node:assert/strict';
import {after, test} from 'node:test';

import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';

const definitions = loader.loadSync(['grpc_service.proto', 'grpc/health/v1/health.proto'], {
  includeDirs: [process.env.TANDEM_PROTO],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
});
const {inference, grpc: {health}} = grpc.loadPackageDefinition(definitions);
const credentials = grpc.credentials.createInsecure();
const stub = new inference.GRPCInferenceService(process.env.TANDEM_ADDRESS, credentials);
const healthStub = new health.v1.Health(process.env.TANDEM_ADDRESS, credentials);
after(() => {
  stub.close();
  healthStub.close();
});

const deadline = () => ({deadline: Date.now() + 20_000});

function call(client, name, request) {
  return new Promise((resolve, reject) => {
    client[name](request, deadline(), (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function pairRequest() {
  return {
    model_name: 'pair',
    id: 'from node',
    inputs: [
      {name: 'a', datatype: 'FP32', shape: [1, 4]},
      {name: 'b', datatype: 'INT64', shape: [1, 2]},
    ],
    raw_input_contents: [
      Buffer.from(new Float32Array([1, 2, 3, 4]).buffer),
      Buffer.from(new BigInt64Array([5n, -6n]).buffer),
    ],
  };
}

const product = Buffer.from(new Float32Array([4321, 4331]).buffer);

test('server and model calls answer', async () => {
  assert.equal((await call(stub, 'ServerLive', {})).live, true);
  assert.equal((await call(stub, 'ServerReady', {})).ready, true);
  assert.equal((await call(stub, 'ServerMetadata', {})).name, 'tandem');
  assert.equal((await call(stub, 'ModelReady', {name: 'pair'})).ready, true);
  const metadata = await call(stub, 'ModelMetadata', {name: 'pair'});
  assert.deepEqual(metadata.inputs, [
    {name: 'a', datatype: 'FP32', shape: ['-1', '4']},
    {name: 'b', datatype: 'INT64', shape: ['-1', '2']},
  ]);
  const {config} = await call(stub, 'ModelConfig', {name: 'pair'});
  assert.equal(config.max_batch_size, 32);
  assert.equal(config.input[0].data_type, 'TYPE_FP32');
  assert.deepEqual(config.input[0].dims, ['4']);
  const {models} = await call(stub, 'RepositoryIndex', {ready: true});
  assert.deepEqual(models.map((model) => model.name), ['echo', 'fixed', 'pair', 'shift', 'typed']);
});

test('raw and typed contents give the same answer', async () => {
  const typed = pairRequest();
  delete typed.raw_input_contents;
  typed.inputs[0].contents = {fp32_contents: [1, 2, 3, 4]};
  typed.inputs[1].contents = {int64_contents: ['5', '-6']};
  for (const request of [pairRequest(), typed]) {
    const response = await call(stub, 'ModelInfer', request);
    assert.equal(response.id, 'from node');
    assert.equal(response.model_version, '2');
    assert.deepEqual(response.outputs.map((output) => output.name), ['product', 'copy']);
    assert.deepEqual(response.raw_output_contents[0], product);
    assert.deepEqual(response.raw_output_contents[1], pairRequest().raw_input_contents[1]);
  }
});

test('calls that are not offered name themselves', async () => {
  const names = [
    'ModelStatistics', 'RepositoryModelLoad', 'RepositoryModelUnload', 'SystemSharedMemoryStatus',
    'SystemSharedMemoryRegister', 'SystemSharedMemoryUnregister', 'CudaSharedMemoryStatus',
    'CudaSharedMemoryRegister', 'CudaSharedMemoryUnregister', 'TraceSetting', 'LogSettings',
  ];
  for (const name of names) {
    await assert.rejects(call(stub, name, {}), {
      code: grpc.status.UNIMPLEMENTED,
      details: `this server does not offer ${name}`,
    });
  }
  const stream = stub.ModelStreamInfer(deadline());
  await assert.rejects(
      new Promise((resolve, reject) => stream.on('error', reject).on('data', resolve)),
      {code: grpc.status.UNIMPLEMENTED});
});

test('health answers Check and Watch', async () => {
  assert.equal((await call(healthStub, 'Check', {service: ''})).status, 'SERVING');
  await assert.rejects(call(healthStub, 'Check', {service: 'nobody'}), {
    code: grpc.status.NOT_FOUND,
  });
  const watch = healthStub.Watch({service: 'pair'}, deadline());
  watch.on('error', () => {});
  const first = await new Promise((resolve) => watch.once('data', resolve));
  watch.cancel();
  assert.equal(first.status, 'SERVING');
});

const {INVALID_ARGUMENT, NOT_FOUND} = grpc.status;
const badRows = [
  ['unknown model', (r) => { r.model_name = 'nobody'; }, NOT_FOUND, 'nobody'],
  ['unknown version', (r) => { r.model_version = '7'; }, NOT_FOUND, '7'],
  ['missing input', (r) => { r.inputs.pop(); r.raw_input_contents.pop(); }, INVALID_ARGUMENT,
    "input 'b' is missing"],
  ['extra input', (r) => {
    r.inputs.push({...r.inputs[0], name: 'c'});
    r.raw_input_contents.push(r.raw_input_contents[0]);
  }, INVALID_ARGUMENT, "input 'c' is unknown"],
  ['duplicate input', (r) => { r.inputs[1].name = 'a'; }, INVALID_ARGUMENT, "input 'a' came twice"],
  ['wrong datatype', (r) => { r.inputs[0].datatype = 'FP64'; }, INVALID_ARGUMENT,
    "datatype 'FP64' came; FP32 was expected"],
  ['wrong rank', (r) => { r.inputs[0].shape = [4]; }, INVALID_ARGUMENT, 'of rank 1 came'],
  ['wrong extent', (r) => { r.inputs[0].shape = [2, 2]; }, INVALID_ARGUMENT, 'shape [2,2] came'],
  ['negative extent', (r) => { r.inputs[0].shape = [-1, 4]; }, INVALID_ARGUMENT, 'extent -1'],
  ['byte count', (r) => { r.raw_input_contents[0] = Buffer.alloc(12); }, INVALID_ARGUMENT,
    'takes 16 bytes, but 12 came'],
  ['raw count', (r) => { r.raw_input_contents.push(Buffer.alloc(16)); }, INVALID_ARGUMENT,
    'raw_input_contents has 3 entries'],
  ['raw and typed', (r) => { r.inputs[0].contents = {fp32_contents: [1]}; }, INVALID_ARGUMENT,
    'typed contents came beside'],
  ['unknown output', (r) => { r.outputs = [{name: 'nothing'}]; }, INVALID_ARGUMENT,
    "output 'nothing' is unknown"],
  ['duplicate output', (r) => { r.outputs = [{name: 'copy'}, {name: 'copy'}]; }, INVALID_ARGUMENT,
    "output 'copy' is requested twice"],
];

for (const [what, change, code, said] of badRows) {
  test(`bad input: ${what}`, async () => {
    const request = pairRequest();
    change(request);
    await assert.rejects(call(stub, 'ModelInfer', request), (error) => {
      assert.equal(error.code, code, error.details);
      assert.ok(error.details.includes(said), error.details);
      return true;
    });
    const response = await call(stub, 'ModelInfer', pairRequest());
    assert.deepEqual(response.raw_output_contents[0], product);
  });
}
