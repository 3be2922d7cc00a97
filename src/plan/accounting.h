#pragma once
// What the ranks hold, added up: nothing of the checkpoint is missing, and every byte beyond it has a reason.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "plan/model_plan.h"

namespace lamina {

/// elements(ranks) = checkpoint + replicas + vocabulary padding, exactly;
/// bytes(ranks) = checkpoint + widening + replicas + vocabulary padding + packing.
struct Accounting {
  struct Amount {
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  Amount checkpoint;          // what the model takes from the files, each element once, in the files' types (--dtype without files)
  int64_t widening = 0;       // bytes that these elements take more (less: below 0) in the type they are kept in
  Amount replicas;            // further copies, in the type they are kept in
  Amount vocabulary_padding;  // rows that no token has
  int64_t packing = 0;        // what is left: bytes that fill up panels and cache lines, or that another coding takes more (less: below 0)
  Amount ranks;               // sum over the ranks: elements with vocabulary padding, bytes reserved
};

/// `ranks`: all of one topology, in order. An error that names a parameter of which the ranks of a stage hold less or more than the whole.
Result<Accounting> account(std::span<const ModelPlan> ranks);

}  // namespace lamina
