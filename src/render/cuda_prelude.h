// cuda_prelude: see cuda_prelude.c.
#pragma once

extern const char cuda_prelude[];
