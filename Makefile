# lathe: `make` builds ./lathe, `make check` runs the fast tests, `make help` lists the rest.
comma    := ,
CC       ?= cc
BUILD    ?= build
PROGRAM  ?= lathe
PREFIX   ?= /usr/local
EMBED    ?= models/storyteller/storyteller-Q4_K_M.gguf
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla
WERROR   ?=
OPT      ?= -O2
SANITIZE ?=
PKGS     := jansson libutf8proc libpcre2-8 libedit libxxhash libmicrohttpd
CFLAGS   += -std=gnu11 -g $(OPT) $(WARN) $(WERROR) -ffp-contract=off -fno-strict-aliasing -pthread \
            -Isrc -Iinclude $(SANITIZE) $(shell pkg-config --cflags $(PKGS))
LDLIBS   += $(shell pkg-config --libs $(PKGS)) -ldl -lm -pthread
LDFLAGS  += $(if $(filter Linux,$(shell uname)),-Wl$(comma)--build-id=sha1)
FOLDERS  := base ir tensor schedule codegen render runtime engine nn models text app
SOURCES  := $(filter-out src/app/main.c,$(foreach f,$(FOLDERS),$(wildcard src/$(f)/*.c)))
OBJECTS  := $(SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/src/app/embedded_model.o $(BUILD)/src/app/chat_page.o
TESTS    := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
FAKES    := $(BUILD)/tests/libfakecuda.so $(BUILD)/tests/libfakenvrtc.so
BENCHES  := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/*.c))

# Commands are shown in short; make V=1 shows them whole.
say       = $(if $(V),,@echo "$(1)";)

all: $(PROGRAM)             ## ./lathe: one file, with the small model inside
	@:

$(PROGRAM): $(BUILD)/src/app/main.o $(BUILD)/liblathe.a
	@mkdir -p $(@D)
	$(call say,link $@)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/liblathe.a: $(OBJECTS)
	@rm -f $@
	$(call say,pack $@)ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,compile $<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/src/app/embedded_model.o: src/app/embedded_model.S $(EMBED)
	@mkdir -p $(@D)
	$(call say,embed $(EMBED))$(CC) -DEMBEDDED_MODEL='"$(EMBED)"' -c -o $@ $<

$(BUILD)/src/app/chat_page.o: src/app/chat_page.S src/app/chat.html
	@mkdir -p $(@D)
	$(call say,embed src/app/chat.html)$(CC) -c -o $@ $<

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/liblathe.a
	@mkdir -p $(@D)
	$(call say,test $@)$(CC) $(CFLAGS) -MMD -MP -Itests $(LDFLAGS) -o $@ $< $(BUILD)/liblathe.a $(LDLIBS) -lcmocka

# Programs of bench/ are plain, without the flags of the project; but those that measure the project's own.
$(BUILD)/bench/%: bench/%.c
	@mkdir -p $(@D)
	$(call say,bench $@)$(CC) -std=gnu11 -O3 $(WARN) $(WERROR) -pthread -o $@ $<

$(BUILD)/bench/products: bench/products.c $(BUILD)/liblathe.a
	@mkdir -p $(@D)
	$(call say,bench $@)$(CC) $(CFLAGS) -MMD -MP -Itests $(LDFLAGS) -o $@ $< $(BUILD)/liblathe.a $(LDLIBS)

# What stands for a card and its compiler where there is none: loaded by lathe as their libraries are.
$(BUILD)/tests/libfake%.so: tests/cuda/fake_%.c tests/cuda/fake_cuda.h
	@mkdir -p $(@D)
	$(call say,test $@)$(CC) -std=gnu11 -O1 -g -Wall -Wextra $(WERROR) -fPIC -shared -o $@ $< -ldl

tests: $(TESTS) $(FAKES)    ## build the unit tests

check: all tests            ## the fast tests (less than a minute)
	tests/runner --check

test: all tests             ## every test
	tests/runner

# tests/runner compiles generated kernels with the flags in $(BUILD)/sanitize; every pass is verified there. The + of the
# callers: the jobs of -j are shared with the inner make, which a recipe in a variable hides.
sanitized = @mkdir -p build/$(1) && echo "$(2)" > build/$(1)/sanitize && \
    $(MAKE) BUILD=build/$(1) PROGRAM=build/$(1)/lathe OPT=-O1 \
        SANITIZE="$(2) -fno-omit-frame-pointer -DLATHE_VERIFY" all tests

debug:                      ## build/debug: AddressSanitizer and UndefinedBehaviorSanitizer
	+$(call sanitized,debug,-fsanitize=address$(comma)undefined)

tsan:                       ## build/tsan: ThreadSanitizer
	+$(call sanitized,tsan,-fsanitize=thread)

lint:                       ## direction of includes, house rules, and clang's warnings as errors
	tools/layers
	tools/lint
	python3 tests/lint_bugs.py
	$(MAKE) BUILD=build/clang PROGRAM=build/clang/lathe CC=clang WERROR=-Werror all tests benches

size:                       ## lines a folder
	@for f in $(FOLDERS); do \
	    printf '%-10s %6d lines, %3d files\n' $$f $$(cat /dev/null src/$$f/*.[ch] src/$$f/*.def \
	        src/$$f/*/*.def 2>/dev/null | wc -l) $$(find src/$$f -name '*.[ch]' | wc -l); done
	@printf '%-10s %6d lines, largest file: %s\n' all \
	    $$(find src -name '*.[ch]' -o -name '*.def' | xargs cat | wc -l) \
	    "$$(find src -name '*.[ch]' | xargs wc -l | grep -v total | sort -rn | head -1)"

fuzz:                       ## each of fuzz/*.c for T seconds (default 60), needs clang
	@for f in $(wildcard fuzz/fuzz_*.c); do \
	    n=$$(basename $$f .c); mkdir -p build/fuzz/$$n && \
	    $(MAKE) BUILD=build/fuzz CC=clang OPT=-O1 SANITIZE="-fsanitize=address,undefined,fuzzer-no-link" \
	        build/fuzz/liblathe.a && \
	    clang $(CFLAGS) -fsanitize=address,undefined,fuzzer -o build/fuzz/run_$$n $$f build/fuzz/liblathe.a $(LDLIBS) && \
	    build/fuzz/run_$$n -max_total_time=$(or $(T),60) -rss_limit_mb=2048 build/fuzz/$$n || exit 1; done

faults: $(BUILD)/tests/test_random_graphs   ## plants faults: the random graphs find each of them (some minutes)
	python3 tests/faults.py --build $(BUILD)

benches: $(BENCHES)         ## build bench/*.c: build/bench/products and the like

bench: all benches          ## speed of the embedded model, and a plain reader of memory beside it
	./$(PROGRAM) bench
	$(BUILD)/bench/read $$(nproc)

deps:                       ## install what building and testing needs (Debian, Ubuntu)
	./quickstart deps

install: all                ## PREFIX=/usr/local, DESTDIR=
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include
	install -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/lathe
	install -m 644 $(BUILD)/liblathe.a $(DESTDIR)$(PREFIX)/lib/liblathe.a
	install -m 644 include/lathe.h $(DESTDIR)$(PREFIX)/include/lathe.h

clean:                      ## remove what was built
	rm -rf build lathe $(BUILD) $(PROGRAM)

help:                       ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

-include $(OBJECTS:.o=.d) $(TESTS:%=%.d) $(BENCHES:%=%.d) $(BUILD)/src/app/main.d
.PHONY: all tests benches check test debug tsan lint size fuzz faults bench deps install clean help
.SECONDARY:
