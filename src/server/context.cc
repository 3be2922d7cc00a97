#include "server/context.h"

#include <algorithm>
#include <chrono>

#include "base/rng.h"

namespace lamina::server {

void LiveRequests::add(const std::string& id, const std::vector<RequestId>& requests) {
  const std::lock_guard lock(mutex_);
  for (const RequestId request : requests) requests_.emplace(id, request);
}

void LiveRequests::remove(const std::string& id, const std::vector<RequestId>& requests) {
  const std::lock_guard lock(mutex_);
  auto [entry, end] = requests_.equal_range(id);
  while (entry != end) {
    const bool mine = std::find(requests.begin(), requests.end(), entry->second) != requests.end();
    entry = mine ? requests_.erase(entry) : std::next(entry);
  }
}

std::vector<RequestId> LiveRequests::of(const std::string& id) {
  const std::lock_guard lock(mutex_);
  std::vector<RequestId> out;
  const auto [begin, end] = requests_.equal_range(id);
  for (auto entry = begin; entry != end; ++entry) out.push_back(entry->second);
  return out;
}

std::vector<RequestId> LiveRequests::all() {
  const std::lock_guard lock(mutex_);
  std::vector<RequestId> out;
  for (const auto& [id, request] : requests_) out.push_back(request);
  return out;
}

ServerContext::ServerContext(Engine& engine_used, const ServerOptions& options)
    : engine(engine_used),
      model_id(options.served_model_name.empty() ? engine_used.info().model : options.served_model_name),
      created(unix_time()),
      metrics(model_id),
      key_(fresh_seed()) {
  if (options.sampling_defaults == "model") defaults = engine.sampling_defaults();
}

std::string ServerContext::new_id(std::string_view prefix) {
  const uint64_t count = counter_.fetch_add(1);
  const auto words = philox4x32({static_cast<uint32_t>(count), static_cast<uint32_t>(count >> 32), 0, 0},
                                {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  std::string out(prefix);
  constexpr char kDigits[] = "0123456789abcdef";
  for (int word = 0; word < 3; ++word) {
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[words[static_cast<size_t>(word)] >> shift & 15];
  }
  return out;
}

uint64_t ServerContext::new_seed() {
  return static_cast<uint64_t>(uniform(key_, 1, counter_.fetch_add(1)) * 9007199254740992.0);  // 2^53
}

int ServerContext::vocab() const { return static_cast<int>(engine.config().vocab_size); }

const Tokenizer* ServerContext::tokenizer() const {
  const Result<const Tokenizer*> tokenizer = engine.tokenizer();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lamina::server
