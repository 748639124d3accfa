#include "server/transport/answer_gate.h"

#include <utility>

namespace tandem::server {

void AnswerGate::Pass(std::function<void()> answer) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      waiting_.push_back(std::move(answer));
      return;
    }
  }
  answer();
}

void AnswerGate::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void AnswerGate::Open() {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    waiting.swap(waiting_);
  }
  for (const std::function<void()>& answer : waiting) answer();
}

int64_t AnswerGate::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(waiting_.size());
}

}  // namespace tandem::server
