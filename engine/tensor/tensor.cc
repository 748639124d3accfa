#include "engine/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem {

std::string_view LayoutName(Layout layout) {
  return layout == Layout::kNative ? "native" : "channels_last";
}

Shape PhysicalShape(const Shape& shape, Layout layout) {
  if (layout == Layout::kNative) return shape;
  Dims dims(shape.dims().begin(), shape.dims().end());
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return Shape(std::move(dims));
}

StatusOr<Tensor> Tensor::Allocate(DType dtype, Shape shape) {
  const std::optional<int64_t> elements = CheckedElements(shape.dims());
  if (!elements || !CheckedMul(*elements, 32)) {
    return ResourceExhausted("a tensor of shape {} passes the size that can be counted",
                             ToString(shape));
  }
  if (dtype == DType::kString) {
    auto strings = std::make_shared<std::vector<std::string>>(static_cast<size_t>(*elements));
    const void* data = strings->data();
    return Share(std::move(strings), dtype, std::move(shape), data);
  }
  ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(DTypeBytes(dtype, *elements)));
  auto owner = std::make_shared<Buffer>(std::move(buffer));
  const void* data = owner->data();
  return Share(std::move(owner), dtype, std::move(shape), data);
}

StatusOr<Tensor> Tensor::Copy(const TensorView& view) {
  CHECK(view.layout() == Layout::kNative, "a Tensor has native layout");
  ASSIGN_OR_RETURN(Tensor copy, Allocate(view.dtype(), view.shape()));
  if (view.dtype() == DType::kString) {
    std::ranges::copy(view.span<std::string>(), copy.mutable_data<std::string>());
  } else if (view.byte_size() > 0) {
    std::memcpy(copy.mutable_view().mutable_raw(), view.raw(), view.byte_size());
  }
  return copy;
}

Tensor Tensor::Share(std::shared_ptr<const void> owner, DType dtype, Shape shape,
                     const void* data) {
  Tensor tensor;
  tensor.owner_ = std::move(owner);
  tensor.view_ = TensorView(dtype, std::move(shape), data);
  return tensor;
}

Tensor Tensor::Reshaped(Shape shape) const {
  CHECK(shape.elements() == elements(), "{} does not hold the elements of {}", ToString(shape),
        ToString(this->shape()));
  return Share(owner_, dtype(), std::move(shape), view_.raw());
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  CHECK(shape().rank() > 0 && begin >= 0 && begin <= end && end <= shape()[0],
        "rows {} to {} of {}", begin, end, ToString(shape()));
  CHECK(DTypeBits(dtype()) != 4 && DTypeBits(dtype()) != 2, "rows of packed elements");
  const int64_t row = shape().Product(1, shape().rank());
  Shape rows = shape();
  rows[0] = end - begin;
  return Share(owner_, dtype(), std::move(rows),
               static_cast<const std::byte*>(view_.raw()) + DTypeBytes(dtype(), begin * row));
}

}  // namespace tandem
