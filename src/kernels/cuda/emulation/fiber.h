// A Place is where a fiber of the emulator stopped and continues later. Every exchange between the
// lanes of a warp is 32 switches between fibers, so a switch is a few inline instructions, without
// a call whose return address the CPU would have to predict.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace quire::cuda::emulation {

#ifdef __x86_64__

struct Place {
  void* stack = nullptr;
  void* frame = nullptr;
  void* code = nullptr;
};

// Makes `place` the beginning of `body`, which must never return, on the given stack.
inline void begin_at(Place& place, char* stack, size_t stack_bytes, void (*body)()) {
  // Functions begin 8 bytes off a multiple of 16, as after a call that has pushed its return
  // address.
  const auto top = (reinterpret_cast<uintptr_t>(stack) + stack_bytes) / 16 * 16 - 8;
  *reinterpret_cast<void**>(top) = nullptr;
  place = {.stack = reinterpret_cast<void*>(top),
           .frame = nullptr,
           .code = reinterpret_cast<void*>(body)};
}

// Stops at `from`, continues at `to`, and returns when a later switch continues at `from`.
[[gnu::always_inline]] inline void switch_places(Place& from, Place& to) {
  Place* stops = &from;
  Place* goes_on = &to;
  asm volatile(
      "movq %%rsp, 0(%[stops])\n\t"
      "movq %%rbp, 8(%[stops])\n\t"
      "leaq 1f(%%rip), %%rcx\n\t"
      "movq %%rcx, 16(%[stops])\n\t"
      "movq 0(%[goes_on]), %%rsp\n\t"
      "movq 8(%[goes_on]), %%rbp\n\t"
      "jmpq *16(%[goes_on])\n"
      "1:\n"
      : [stops] "+a"(stops), [goes_on] "+d"(goes_on)
      :
      : "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
        "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

#else

struct Place {
  ucontext_t context;
};

inline void begin_at(Place& place, char* stack, size_t stack_bytes, void (*body)()) {
  getcontext(&place.context);
  place.context.uc_stack.ss_sp = stack;
  place.context.uc_stack.ss_size = stack_bytes;
  makecontext(&place.context, body, 0);
}

inline void switch_places(Place& from, Place& to) { swapcontext(&from.context, &to.context); }

#endif

}  // namespace quire::cuda::emulation
