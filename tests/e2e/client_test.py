"""Every call of the protocol, from Python stubs, against the real daemon."""

import json
import struct
import unittest

import grpc

import grpc_service_pb2 as pb
import health_pb2
from make_models import HALF, TYPES
from support import DEADLINE_SECONDS, ServedTest, add_input, pair_product, pair_request

Status = health_pb2.HealthCheckResponse

TEXTS = (b"", b"a\0b", "\u00e9\u4e16".encode(), b"\xff\xfe", b"x" * 1000, b"end")

# Six elements of each type as raw bytes, with the type's limits, NaN and infinity among them.
RAW = {
    "BOOL": bytes([0, 1, 1, 0, 0, 1]),
    "UINT8": bytes([0, 255, 1, 2, 3, 4]),
    "UINT16": struct.pack("<6H", 0, 65535, 1, 2, 3, 4),
    "UINT32": struct.pack("<6I", 0, 2**32 - 1, 1, 2, 3, 4),
    "UINT64": struct.pack("<6Q", 0, 2**64 - 1, 1, 2, 3, 4),
    "INT8": struct.pack("<6b", -128, 127, 0, 1, -1, 2),
    "INT16": struct.pack("<6h", -(2**15), 2**15 - 1, 0, 1, -1, 2),
    "INT32": struct.pack("<6i", -(2**31), 2**31 - 1, 0, 1, -1, 2),
    "INT64": struct.pack("<6q", -(2**63), 2**63 - 1, 0, 1, -1, 2),
    "FP16": struct.pack("<6H", 0x7C00, 0x7E01, 0x8000, 0x0001, 0x3C00, 0xFBFF),
    "FP32": struct.pack("<6I", 0x7F800000, 0x7FC00001, 0x80000000, 1, 0x3F800000, 0xFF7FFFFF),
    "FP64": struct.pack("<6d", float("inf"), float("nan"), -0.0, 5e-324, 1.0, -1e300),
    "BYTES": b"".join(struct.pack("<I", len(text)) + text for text in TEXTS),
    "BF16": struct.pack("<6H", 0x7F80, 0x7FC1, 0x8000, 1, 0x3F80, 0xFF7F),
}

TYPED_FIELDS = {
    "BOOL": ("bool_contents", "6?"),
    "UINT8": ("uint_contents", "6B"),
    "UINT16": ("uint_contents", "6H"),
    "UINT32": ("uint_contents", "6I"),
    "UINT64": ("uint64_contents", "6Q"),
    "INT8": ("int_contents", "6b"),
    "INT16": ("int_contents", "6h"),
    "INT32": ("int_contents", "6i"),
    "INT64": ("int64_contents", "6q"),
    "FP32": ("fp32_contents", "6f"),
    "FP64": ("fp64_contents", "6d"),
}


def typed_elements(name):
    """The field of typed contents and the elements of RAW[name] in it."""
    if name == "BYTES":
        return "bytes_contents", TEXTS
    field, layout = TYPED_FIELDS[name]
    return field, struct.unpack("<" + layout, RAW[name])


def echo_request(outputs=()):
    request = pb.ModelInferRequest(model_name="echo")
    for name in TYPES:
        add_input(request, "x" + name, name, [2, 3], RAW[name])
    for name in outputs:
        request.outputs.add(name=name)
    return request


class ClientTest(ServedTest):
    def test_server_calls(self):
        self.assertTrue(self.call("ServerLive").live)
        self.assertTrue(self.call("ServerReady").ready)
        metadata = self.call("ServerMetadata")
        self.assertEqual(metadata.name, "tandem")
        self.assertNotEqual(metadata.version, "")
        self.assertEqual(list(metadata.extensions), ["binary_tensor_data", "model_configuration"])

    def test_model_calls(self):
        self.assertTrue(self.call("ModelReady", name="pair").ready)
        self.assertTrue(self.call("ModelReady", name="pair", version="2").ready)
        metadata = self.call("ModelMetadata", name="pair")
        self.assertEqual(list(metadata.versions), ["2"])
        self.assertEqual(metadata.platform, "onnxruntime_onnx")
        self.assertEqual(
            [(port.name, port.datatype, list(port.shape)) for port in metadata.inputs],
            [("a", "FP32", [-1, 4]), ("b", "INT64", [-1, 2])],
        )
        config = self.call("ModelConfig", name="pair").config
        self.assertEqual((config.name, config.max_batch_size), ("pair", 32))
        self.assertEqual([list(port.dims) for port in config.input], [[4], [2]])
        self.assertEqual([list(port.dims) for port in config.output], [[2], [2]])
        self.assertGreaterEqual(config.instance_group[0].count, 1)

    def test_a_model_that_does_not_batch(self):
        metadata = self.call("ModelMetadata", name="fixed")
        config = self.call("ModelConfig", name="fixed").config
        self.assertEqual(list(metadata.inputs[0].shape), [2, 3])
        self.assertEqual(config.max_batch_size, 0)
        self.assertEqual(list(config.input[0].dims), [2, 3])
        request = pb.ModelInferRequest(model_name="fixed")
        add_input(request, "x", "FP32", [2, 3], RAW["FP32"])
        self.assertEqual(list(self.infer(request).raw_output_contents), [RAW["FP32"]])

    def test_repository_index(self):
        index = self.call("RepositoryIndex")
        self.assertEqual(
            [(model.name, model.version, model.state) for model in index.models if model.state == "READY"],
            [
                ("echo", "1", "READY"),
                ("fixed", "1", "READY"),
                ("pair", "2", "READY"),
                ("shift", "1", "READY"),
                ("typed", "1", "READY"),
            ],
        )

    def test_infer_computes_and_echoes_the_id(self):
        response = self.infer(pair_request(rows=3))
        self.assertEqual(
            (response.model_name, response.model_version, response.id), ("pair", "2", "an id")
        )
        self.assertEqual([output.name for output in response.outputs], ["product", "copy"])
        self.assertEqual(list(response.outputs[0].shape), [3, 2])
        self.assertEqual(response.raw_output_contents[0], pair_product(rows=3))
        self.assertEqual(response.raw_output_contents[1], struct.pack("<6q", *range(6)))

    def test_every_type_raw(self):
        response = self.infer(echo_request())
        self.assertEqual(len(response.outputs), len(TYPES))
        for output, raw in zip(response.outputs, response.raw_output_contents):
            self.assertEqual(raw, RAW[output.datatype], output.name)
            self.assertEqual(output.name, "y" + output.datatype)
            self.assertEqual(list(output.shape), [2, 3])

    def test_every_type_typed(self):
        request = pb.ModelInferRequest(model_name="typed")
        for name in TYPES:
            if name not in HALF:
                contents = add_input(request, "x" + name, name, [2, 3]).contents
                field, values = typed_elements(name)
                getattr(contents, field).extend(values)
        response = self.infer(request)
        self.assertEqual(len(response.outputs), len(TYPES) - len(HALF))
        for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
            self.assertEqual(raw, RAW[output.datatype], output.name)
            self.assertEqual(output.name, "y" + output.datatype)
            self.assertEqual(list(output.shape), [2, 3])

    def test_half_precision_has_no_typed_contents(self):
        for half in HALF:
            request = pb.ModelInferRequest(model_name="echo")
            for name in TYPES:
                add_input(request, "x" + name, name, [0, 3])
            self.assertEqual(len(self.infer(request).outputs), len(TYPES))
            request.inputs[list(TYPES).index(half)].contents.fp32_contents.append(1.0)
            self.assert_refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{half} has no typed contents",
                lambda request=request: self.infer(request),
            )

    def test_typed_numbers(self):
        request = pair_request()
        del request.raw_input_contents[:]
        request.inputs[0].contents.fp32_contents.extend([0.0, 1.0, 2.0, 3.0])
        request.inputs[1].contents.int64_contents.extend([0, 1])
        response = self.infer(request)
        self.assertEqual(response.raw_output_contents[0], pair_product())
        self.assertEqual(response.raw_output_contents[1], struct.pack("<2q", 0, 1))
        self.assertFalse(response.outputs[0].HasField("contents"))

    def test_no_rows(self):
        request = pb.ModelInferRequest(model_name="pair")
        add_input(request, "a", "FP32", [0, 4], b"")
        add_input(request, "b", "INT64", [0, 2], b"")
        response = self.infer(request)
        self.assertEqual(list(response.outputs[0].shape), [0, 2])
        self.assertEqual(list(response.raw_output_contents), [b"", b""])

    def test_requested_outputs(self):
        response = self.infer(echo_request(outputs=["yBYTES", "yBOOL"]))
        self.assertEqual([output.name for output in response.outputs], ["yBYTES", "yBOOL"])
        self.assertEqual(list(response.raw_output_contents), [RAW["BYTES"], RAW["BOOL"]])

    def test_rows_have_the_same_bits_in_any_batch(self):
        alone = [self.infer(pair_request(rows=1)).raw_output_contents[0]]
        whole = self.infer(pair_request(rows=32)).raw_output_contents[0]
        self.assertEqual(whole[:8], alone[0])
        calls = [
            self.stub.ModelInfer.future(pair_request(rows=n), timeout=DEADLINE_SECONDS)
            for n in (1, 2, 3, 7) * 8
        ]
        for call, rows in zip(calls, (1, 2, 3, 7) * 8):
            self.assertEqual(call.result().raw_output_contents[0], pair_product(rows))

    def test_parameters_that_clients_send(self):
        request = pair_request()
        request.parameters["timeout"].int64_param = 10_000_000
        request.parameters["priority"].uint64_param = 1
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        request.parameters["custom"].string_param = "anything"
        self.infer(request)

    def test_extension_calls_that_are_not_offered(self):
        for name in (
            "ModelStatistics",
            "RepositoryModelLoad",
            "RepositoryModelUnload",
            "SystemSharedMemoryStatus",
            "SystemSharedMemoryRegister",
            "SystemSharedMemoryUnregister",
            "CudaSharedMemoryStatus",
            "CudaSharedMemoryRegister",
            "CudaSharedMemoryUnregister",
            "TraceSetting",
            "LogSettings",
        ):
            with self.subTest(name):
                self.assert_refused(
                    grpc.StatusCode.UNIMPLEMENTED, name, lambda name=name: self.call(name)
                )
        stream = self.stub.ModelStreamInfer(iter([pair_request()]), timeout=DEADLINE_SECONDS)
        self.assert_refused(
            grpc.StatusCode.UNIMPLEMENTED, "ModelStreamInfer", lambda: next(iter(stream))
        )

    def test_health(self):
        for service in ("", "inference.GRPCInferenceService", "pair"):
            response = self.health.Check(
                health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE_SECONDS
            )
            self.assertEqual(response.status, Status.SERVING)
        unknown = health_pb2.HealthCheckRequest(service="nobody")
        self.assert_refused(
            grpc.StatusCode.NOT_FOUND,
            "'nobody'",
            lambda: self.health.Check(unknown, timeout=DEADLINE_SECONDS),
        )
        watch = self.health.Watch(unknown, timeout=DEADLINE_SECONDS)
        self.assertEqual(next(watch).status, Status.SERVICE_UNKNOWN)
        watch.cancel()

    def test_reflection_lists_the_services(self):
        # ServerReflectionRequest{list_services = 7: "*"}, written by hand.
        call = self.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        )
        answer = next(call(iter([b"\x3a\x01*"]), timeout=DEADLINE_SECONDS))
        self.assertIn(b"inference.GRPCInferenceService", answer)
        self.assertIn(b"grpc.health.v1.Health", answer)


if __name__ == "__main__":
    unittest.main()
