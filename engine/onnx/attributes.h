// AttributeProto: kinds and plain values. Graphs are imported by graph_import.h, which knows the
// names around them.
#pragma once

#include <onnx/onnx_pb.h>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/onnx/external_data.h"

namespace tandem::onnx_import {

// The kind of an attribute that has a value. Before IR version 2 the field `type` was not written:
// the field that is set tells then. InvalidArgument when another field than that of its type is
// set, or none where one is needed.
StatusOr<::onnx::AttributeProto::AttributeType> AttributeKind(const ::onnx::AttributeProto& proto);

// True when a field with a value is set, whatever the type.
bool HoldsValue(const ::onnx::AttributeProto& proto);

// The value of an attribute that is not a graph or a list of graphs. InvalidArgument for sparse
// tensors.
StatusOr<graph::Attribute> DecodeAttribute(const ::onnx::AttributeProto& proto,
                                           ExternalData& external, graph::ConstantStore& constants);

}  // namespace tandem::onnx_import
