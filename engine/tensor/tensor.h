// Tensors: TensorView borrows memory, Tensor owns or shares it. Both are dense and row-major in
// their shape, unless their layout says otherwise.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/status.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace tandem {

// How the axes of a shape lie in memory. The shape itself always keeps ONNX's order of axes.
enum class Layout : uint8_t {
  kNative,        // row-major as the shape says: N C H W
  kChannelsLast,  // axis 1 moved to the end: N H W C; rank >= 3
};
std::string_view LayoutName(Layout layout);  // "native", "channels_last"

// The extents in the order in which they lie in memory, outermost first.
Shape PhysicalShape(const Shape& shape, Layout layout);

// Borrowed memory that can be read. Copyable; valid as long as the memory is.
class TensorView {
 public:
  TensorView() = default;
  TensorView(DType dtype, Shape shape, const void* data, Layout layout = Layout::kNative)
      : dtype_(dtype), layout_(layout), shape_(std::move(shape)), data_(data) {}

  DType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  size_t byte_size() const { return DTypeBytes(dtype_, elements()); }
  const void* raw() const { return data_; }
  // The bytes of the elements; not for kString.
  std::span<const std::byte> bytes() const {
    CHECK(dtype_ != DType::kString, "strings have no flat bytes");
    return {static_cast<const std::byte*>(data_), byte_size()};
  }

  // Elements as T, which must be the dtype's storage type (std::string for kString).
  template <typename T>
  const T* data() const {
    CHECK(Holds<T>(), "tensor of {} read as another type", DTypeName(dtype_));
    return static_cast<const T*>(data_);
  }
  template <typename T>
  std::span<const T> span() const {
    return {data<T>(), static_cast<size_t>(elements())};
  }

 protected:
  template <typename T>
  bool Holds() const {
    if constexpr (std::is_same_v<T, std::string>) return dtype_ == DType::kString;
    return dtype_ == kDTypeOf<T>;
  }

  DType dtype_ = DType::kUndefined;
  Layout layout_ = Layout::kNative;
  Shape shape_;
  const void* data_ = nullptr;
};

// Borrowed memory that can be written.
class MutableTensorView : public TensorView {
 public:
  MutableTensorView() = default;
  MutableTensorView(DType dtype, Shape shape, void* data, Layout layout = Layout::kNative)
      : TensorView(dtype, std::move(shape), data, layout) {}

  void* mutable_raw() const { return const_cast<void*>(data_); }
  std::span<std::byte> mutable_bytes() const {
    CHECK(dtype_ != DType::kString, "strings have no flat bytes");
    return {static_cast<std::byte*>(mutable_raw()), byte_size()};
  }
  template <typename T>
  T* mutable_data() const {
    CHECK(Holds<T>(), "tensor of {} written as another type", DTypeName(dtype_));
    return static_cast<T*>(mutable_raw());
  }
};

// Memory with shared ownership and native layout. Copying shares; whoever writes must be the only
// owner. Thread-safe as far as nobody writes.
class Tensor {
 public:
  Tensor() = default;

  // Uninitialised elements (empty strings for kString). ResourceExhausted when memory is short.
  static StatusOr<Tensor> Allocate(DType dtype, Shape shape);
  // Copies `view`, which must have native layout.
  static StatusOr<Tensor> Copy(const TensorView& view);
  // A tensor of `values`, for constants and tests; CHECKs that count and shape agree.
  template <typename T>
  static Tensor Of(Shape shape, std::span<const T> values);
  template <typename T>
  static Tensor Of(Shape shape, std::initializer_list<T> values) {
    return Of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>(Shape(), std::span<const T>(&value, 1));
  }
  // `shape` elements of `dtype` at `data`, kept alive by `owner`.
  static Tensor Share(std::shared_ptr<const void> owner, DType dtype, Shape shape,
                      const void* data);

  // False for a default-constructed tensor.
  bool valid() const { return view_.dtype() != DType::kUndefined; }
  DType dtype() const { return view_.dtype(); }
  const Shape& shape() const { return view_.shape(); }
  int64_t elements() const { return view_.elements(); }
  const TensorView& view() const { return view_; }
  MutableTensorView mutable_view() const {
    return {view_.dtype(), view_.shape(), const_cast<void*>(view_.raw())};
  }
  template <typename T>
  const T* data() const {
    return view_.data<T>();
  }
  template <typename T>
  T* mutable_data() const {
    return mutable_view().mutable_data<T>();
  }
  template <typename T>
  std::span<const T> span() const {
    return view_.span<T>();
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The same memory with another shape of as many elements.
  Tensor Reshaped(Shape shape) const;
  // Rows [begin, end) along axis 0, sharing this tensor's memory; not for 2- and 4-bit elements.
  Tensor Rows(int64_t begin, int64_t end) const;

 private:
  std::shared_ptr<const void> owner_;
  TensorView view_;
};

template <typename T>
Tensor Tensor::Of(Shape shape, std::span<const T> values) {
  constexpr DType dtype = std::is_same_v<T, std::string> ? DType::kString : kDTypeOf<T>;
  StatusOr<Tensor> tensor = Allocate(dtype, std::move(shape));
  CHECK(tensor.ok(), "{}", Message(tensor.status()));
  CHECK(tensor->elements() == static_cast<int64_t>(values.size()), "{} values for shape {}",
        values.size(), ToString(tensor->shape()));
  std::copy(values.begin(), values.end(), tensor->mutable_data<T>());
  return *std::move(tensor);
}

}  // namespace tandem
