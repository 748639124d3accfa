"""Bad input: the status, the text, and that the daemon serves the next request."""

import struct
import unittest

import grpc

import grpc_service_pb2 as pb
from support import ServedTest, add_input, pair_product, pair_request

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
ROW = struct.pack("<4f", 1, 2, 3, 4)


def shape(request, index, dims):
    del request.inputs[index].shape[:]
    request.inputs[index].shape.extend(dims)


def typed(request):
    del request.raw_input_contents[:]
    request.inputs[0].contents.fp32_contents.extend([1.0] * 4)
    request.inputs[1].contents.int64_contents.extend([1] * 2)


def unknown_model(r):
    r.model_name = "nobody"


def empty_model(r):
    r.model_name = ""


def odd_model_name(r):
    r.model_name = "../pair"


def unknown_version(r):
    r.model_version = "7"


def version_that_is_no_number(r):
    r.model_version = "latest"


def missing_input(r):
    del r.inputs[1]
    del r.raw_input_contents[1]


def extra_input(r):
    add_input(r, "c", "FP32", [1, 4], ROW)


def duplicate_input(r):
    del r.inputs[1]
    del r.raw_input_contents[1]
    add_input(r, "a", "FP32", [1, 4], ROW)


def empty_input_name(r):
    r.inputs[1].name = ""


def wrong_datatype(r):
    r.inputs[0].datatype = "INT32"


def bogus_datatype(r):
    r.inputs[0].datatype = "FP33"


def wrong_rank(r):
    shape(r, 0, [4])


def wrong_extent(r):
    shape(r, 0, [2, 2])


def negative_extent(r):
    shape(r, 0, [-1, 4])


def product_that_wraps(r):
    shape(r, 0, [2**62 + 1, 4])


def batch_above_the_maximum(r):
    r.CopyFrom(pair_request(rows=33))


def inputs_that_disagree_on_the_batch(r):
    shape(r, 1, [2, 2])
    r.raw_input_contents[1] += b"\0" * 16


def byte_count_short(r):
    r.raw_input_contents[0] = ROW[:-4]


def byte_count_long(r):
    r.raw_input_contents[0] = ROW + b"\0"


def too_few_raw_entries(r):
    del r.raw_input_contents[1]


def too_many_raw_entries(r):
    r.raw_input_contents.append(ROW)


def raw_and_typed(r):
    r.inputs[0].contents.fp32_contents.extend([1.0] * 4)


def typed_field_of_another_type(r):
    typed(r)
    del r.inputs[0].contents.fp32_contents[:]
    r.inputs[0].contents.int_contents.extend([1] * 4)


def typed_count_short(r):
    typed(r)
    del r.inputs[0].contents.fp32_contents[0]


def no_contents(r):
    del r.raw_input_contents[:]


def unknown_output(r):
    r.outputs.add(name="nothing")


def duplicate_output(r):
    r.outputs.add(name="copy")
    r.outputs.add(name="copy")


def classification(r):
    r.outputs.add(name="product").parameters["classification"].int64_param = 1


def shared_memory(r):
    r.inputs[0].parameters["shared_memory_region"].string_param = "region"


def reserved_parameter(r):
    r.parameters["triton_anything"].bool_param = True


def timeout_of_another_type(r):
    r.parameters["timeout"].bool_param = True


def too_many_parameters(r):
    for i in range(65):
        r.parameters[f"p{i}"].int64_param = i


def long_id(r):
    r.id = "i" * 257


def too_many_outputs(r):
    for _ in range(1025):
        r.outputs.add(name="copy")


ROWS = [
    (unknown_model, NOT_FOUND, "nobody"),
    (empty_model, NOT_FOUND, "model '' came; a name of 1 to 128"),
    (odd_model_name, NOT_FOUND, "' came; a name of 1 to 128"),
    (unknown_version, NOT_FOUND, "7"),
    (version_that_is_no_number, INVALID, "' came; a positive decimal number"),
    (missing_input, INVALID, "input 'b' is missing; INT64 [-1,2] was expected"),
    (extra_input, INVALID, "input 'c' is unknown: 'FP32' of shape [1,4] came; the model's inputs are 'a', 'b'"),
    (duplicate_input, INVALID, "input 'a' came twice; each input was expected once"),
    (empty_input_name, INVALID, "input '' is unknown"),
    (wrong_datatype, INVALID, "input 'a': datatype 'INT32' came; FP32 was expected"),
    (bogus_datatype, INVALID, "input 'a': datatype 'FP33' came; FP32 was expected"),
    (wrong_rank, INVALID, "input 'a': shape [4] of rank 1 came; FP32 [-1,4] of rank 2"),
    (wrong_extent, INVALID, "input 'a': shape [2,2] came; FP32 [-1,4] was expected"),
    (negative_extent, INVALID, "input 'a': shape [-1,4] came, with extent -1 on axis 0"),
    (product_that_wraps, INVALID, "input 'a': shape [4611686018427387905,4] came"),
    (batch_above_the_maximum, INVALID, "33"),
    (inputs_that_disagree_on_the_batch, INVALID, "'b'"),
    (byte_count_short, INVALID, "input 'a': FP32 [1,4] takes 16 bytes, but 12 came"),
    (byte_count_long, INVALID, "input 'a': FP32 [1,4] takes 16 bytes, but 17 came"),
    (too_few_raw_entries, INVALID, "raw_input_contents has 1 entries, but the request has 2"),
    (too_many_raw_entries, INVALID, "raw_input_contents has 3 entries, but the request has 2"),
    (raw_and_typed, INVALID, "input 'a': typed contents came beside raw_input_contents"),
    (typed_field_of_another_type, INVALID, "input 'a': FP32 [1,4] takes 4 elements in fp32_contents, but 4 in int_contents"),
    (typed_count_short, INVALID, "input 'a': FP32 [1,4] takes 4 elements in fp32_contents, but 3 in fp32_contents"),
    (no_contents, INVALID, "input 'a': FP32 [1,4] takes 4 elements, but neither raw_input_contents nor contents"),
    (unknown_output, INVALID, "output 'nothing' is unknown"),
    (duplicate_output, INVALID, "output 'copy' is requested twice"),
    (classification, UNIMPLEMENTED, "classification"),
    (shared_memory, UNIMPLEMENTED, "shared_memory_region"),
    (reserved_parameter, INVALID, "triton_anything"),
    (timeout_of_another_type, INVALID, "a bool came"),
    (too_many_parameters, INVALID, "65 parameters came; at most 64"),
    (long_id, INVALID, "257 bytes; at most 256"),
    (too_many_outputs, INVALID, "1025 outputs are requested; at most 1024"),
]


class BadInputTest(ServedTest):
    def test_each_row_is_refused_and_the_next_request_is_served(self):
        for change, code, part in ROWS:
            with self.subTest(change.__name__):
                request = pair_request()
                change(request)
                self.assert_refused(code, part, lambda: self.infer(request))
                good = self.infer(pair_request())
                self.assertEqual(good.raw_output_contents[0], pair_product())

    def test_bytes_that_end_too_early_or_too_late(self):
        types = self.call("ModelMetadata", name="echo").inputs
        rows = [
            (b"\xff\xff\xff\xff" * 3, "element 0 of BYTES has length 4294967295"),
            (b"\0\0\0\0" * 2, "takes 3 elements, each a length of 4 bytes and the bytes, but 8 bytes came"),
            (b"\0\0\0\0" * 4, "4 bytes are left after the last"),
        ]
        for raw, part in rows:
            request = pb.ModelInferRequest(model_name="echo")
            for port in sorted(types, key=lambda port: port.datatype != "BYTES"):
                add_input(request, port.name, port.datatype, [1, 3], raw)
            self.assert_refused(INVALID, "input 'xBYTES': ", lambda: self.infer(request))
            self.assert_refused(INVALID, part, lambda: self.infer(request))

    def test_an_input_with_a_default_is_not_replaced(self):
        request = pb.ModelInferRequest(model_name="shift")
        add_input(request, "x", "FP32", [1, 2], struct.pack("<2f", 10, 20))
        answer = struct.pack("<2f", 11, 22)
        self.assertEqual(self.infer(request).raw_output_contents[0], answer)
        more = pb.ModelInferRequest()
        more.CopyFrom(request)
        add_input(more, "offset", "FP32", [2], struct.pack("<2f", 5, 5))
        self.assert_refused(
            INVALID,
            "input 'offset' has a default, which this model does not let requests replace",
            lambda: self.infer(more),
        )
        self.assertEqual(self.infer(request).raw_output_contents[0], answer)

    def test_unknown_models_are_the_same_error_on_every_call(self):
        for rpc in ("ModelReady", "ModelMetadata", "ModelConfig"):
            self.assert_refused(NOT_FOUND, "nobody", lambda: self.call(rpc, name="nobody"))
            self.assert_refused(NOT_FOUND, "9", lambda: self.call(rpc, name="pair", version="9"))
            self.assert_refused(
                INVALID, "decimal number", lambda: self.call(rpc, name="pair", version="x")
            )

    def test_bytes_that_are_no_request(self):
        call = self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with self.assertRaises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff garbage", timeout=20)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INTERNAL)
        self.assertIn("no ModelInferRequest", caught.exception.details())
        unknown = self.channel.unary_unary("/inference.GRPCInferenceService/Unknown")
        with self.assertRaises(grpc.RpcError) as caught:
            unknown(b"", timeout=20)
        self.assertEqual(caught.exception.code(), UNIMPLEMENTED)
        self.infer(pair_request())


if __name__ == "__main__":
    unittest.main()
