"""Draws programs in C and C++ that store to memory which they are given: what follows from a seed.

A program has functions, each of which has statements. A statement is a line of text; some contain
others. `without` leaves some of them out, to find those with which a program fails.
"""
import random

INTEGERS = ["u8", "short", "int", "u32", "long", "u64"]
ORDERS = ["RELAXED", "ACQ_REL", "SEQ_CST"]
WIDTHS = {"bytes": ("u8", "kBytes"), "shorts": ("u16", "kShorts"), "ints": ("u32", "kInts"),
          "words": ("u64", "kWords"), "quads": ("u128", "kQuads")}
PARAMETERS = "struct {record}* r, struct Arrays* m, u64 at, u64* random"
ARGUMENTS = "r, m, at, random"


class Statements:
    """What programs of both languages do. Each method draws a statement."""

    def __init__(self, seed, language):
        self.random = random.Random(f"{seed} {language}")
        self.language = language
        self.record = f"Record_{seed}"
        self.names = 0
        self.fields = []
        self.scalars, self.arrays, self.bits, self.vectors = [], [], [], []
        self.seed = seed
        self.blind = 0
        self.in_coroutine = False

    def one_of(self, choices):
        return self.random.choice(choices)

    def number(self, first, last):
        return self.random.randint(first, last)

    def name(self):
        self.names += 1
        return f"n{self.names}"

    def index(self, limit, room=0):
        """Of an element that has `room` others behind it."""
        limit = f"({limit} - {room})" if room else limit
        return self.one_of([f"at % {limit}", f"(at + {self.number(1, 99)}) % {limit}",
                            f"next(random) % {limit}"])

    def value(self):
        return self.one_of(["next(random)", "at", "(at * 3 + 1)", str(self.number(0, 99)),
                            f"m->words[{self.index('kWords')}]", f"{self.place()}.last"])

    def place(self):
        return f"r[{self.index(f'COUNT({self.record})')}]"

    def word(self):
        return f"m->words[{self.index('kWords')}]"

    def some(self, most):
        """How often a loop is run."""
        return self.one_of([str(self.number(1, most)), f"next(random) % {most + 1}"])

    # --- records

    def draw_record(self):
        for number in range(self.number(5, 14)):
            self.draw_field(f"f{number}")
        self.fields.append("u64 last;")
        self.scalars.append("last")
        return f"struct {self.record} {{\n  " + "\n  ".join(self.fields) + "\n};\n"

    def draw_field(self, name):
        kind = self.number(0, 7)
        if kind == 0:
            count = self.number(2, 40)
            self.fields.append(f"{self.one_of(INTEGERS)} {name}[{count}];")
            self.arrays.append((name, count))
        elif kind == 1:
            self.fields.append(f"{self.one_of(['unsigned', 'u64', 'u8'])} {name} : "
                               f"{self.number(1, 8)};")
            self.bits.append(name)
        elif kind == 2:
            self.fields.append(f"union {{ u64 {name}; u8 {name}b[8]; float {name}f; "
                               f"struct {{ u16 low; u32 high; }} {name}s; }};")
            self.scalars += [name, name + "s.high"]
            self.arrays.append((name + "b", 8))
        elif kind == 3:
            self.fields.append(f"{self.one_of(['Vector', 'Wide', 'Wider'])} {name};")
            self.vectors.append(name)
        elif kind == 4:
            self.fields.append(f"struct {{ char a; {self.one_of(INTEGERS)} b; }} {name}[3];")
            self.scalars += [f"{name}[{index}].b" for index in range(3)]
        elif kind == 5:
            self.fields.append(f"u64 {name} : {self.number(33, 60)};")
            self.bits.append(name)
        else:
            self.fields.append(f"{self.one_of(INTEGERS + ['float', 'double', 'u128'])} {name};")
            self.scalars.append(name)

    # --- one store, or a few

    def scalar(self):
        return f"{self.place()}.{self.one_of(self.scalars)} = (u8)({self.value()});"

    def element(self):
        if not self.arrays:
            return self.scalar()
        name, count = self.one_of(self.arrays)
        return f"{self.place()}.{name}[next(random) % {count}] = (u8)({self.value()});"

    def bit_field(self):
        if not self.bits:
            return self.odd()
        return f"{self.place()}.{self.one_of(self.bits)} = (u32)({self.value()}) & 1;"

    def odd(self):
        field = self.one_of(["a", "b", "c", "d", "e", "f"])
        return f"m->odds[{self.index('kOdds')}].{field} = (u8)({self.value()}) & 31;"

    def vector(self):
        if not self.vectors or self.number(0, 1):
            array = self.one_of(["vectors", "wides", "widers"])
            one, other = self.index("kVectors"), self.index("kVectors")
            return f"m->{array}[{one}] += m->{array}[{other}] * 3;"
        name = self.one_of(self.vectors)
        return f"{{ struct {self.record}* p = &{self.place()}; p->{name} = p->{name} + 1; }}"

    def lane(self):
        return f"m->vectors[{self.index('kVectors')}][next(random) % 4] = " \
               f"(int)({self.value()} & 99);"

    def element_of_width(self):
        array = self.one_of(list(WIDTHS))
        kind, limit = WIDTHS[array]
        return f"m->{array}[{self.index(limit)}] = ({kind})({self.value()});"

    def atomic(self):
        array = self.one_of(list(WIDTHS))
        kind, limit = WIDTHS[array]
        place, value = f"&m->{array}[{self.index(limit)}]", f"({kind})({self.value()})"
        order = "__ATOMIC_" + self.one_of(ORDERS)
        return self.one_of([
            f"__atomic_fetch_{self.one_of(['add', 'sub', 'or', 'xor', 'nand'])}"
            f"({place}, {value}, {order});",
            f"__atomic_store_n({place}, {value}, __ATOMIC_{self.one_of(['RELAXED', 'RELEASE'])});",
            f"(void)__atomic_exchange_n({place}, {value}, {order});",
            f"{{ {kind}* p = {place}; {kind} is = *p; __atomic_compare_exchange_n(p, &is, {value}, "
            f"0, {order}, __ATOMIC_RELAXED); }}",
            f"(void)__sync_lock_test_and_set({place}, {value});"])

    def assembler(self):
        return f'asm("addq %1, %0" : "+m"({self.word()}) : "r"((u64)({self.value()})) : "cc");'

    def assembler_output(self):
        return f'asm volatile("movl %1, %0" : "=m"(m->ints[{self.index("kInts")}]) : ' \
               f'"r"((u32)({self.value()})));'

    def blind_assembler(self):
        """Which the pass cannot see, and says so. Where it is emitted it leaves its number."""
        self.blind += 1
        number = self.seed * 1000 + self.blind
        text = f'movq %1, (%0)\\n.pushsection .drawn_blind,\\"a\\"\\n.quad {number}\\n.popsection'
        return f"{{ u64* p = &{self.word()}; perdura_report(p, sizeof *p); " \
               f'asm volatile("{text}" : : "r"(p), "r"((u64)({self.value()})) : "memory"); ' \
               f"/* BLIND {number} */ }}"

    def assembler_of_many(self):
        bytes_ = self.number(1, 200)
        return f"{{ u8* to = m->bytes + {self.index('kBytes', 256)}; u64 n = {bytes_}; " \
               f'u8* end = to; asm volatile("rep stosb" : "+D"(end), "+c"(n), ' \
               f'"=m"(*(u8(*)[{bytes_}])to) : "a"((u32)({self.value()})) : "cc"); }}'

    def from_number(self):
        return f"*(u64*)((char*)0 + (u64)&{self.word()}) = {self.value()};"

    def nontemporal(self):
        return f"__builtin_nontemporal_store((u64)({self.value()}), &{self.word()});"

    def string(self):
        target = f"(char*)m->bytes + {self.index('kBytes', 64)}"
        return self.one_of([
            f'strcpy({target}, "{"long " * self.number(1, 9)}");',
            f'sprintf({target}, "%lu of %d", (u64)({self.value()}), 7);',
            f'snprintf({target}, 20, "%060lu", (u64)({self.value()}));',
            f'strncpy({target}, "short", {self.number(1, 60)});'])

    def swap(self):
        return f"{{ struct {self.record} *one = &{self.place()}, *other = &{self.place()}; " \
               f"u64 last = one->last; one->last = other->last; other->last = last; }}"

    def pause(self):
        return "drawn_pause();"

    # --- many bytes

    def copy_record(self):
        return f"{self.place()} = {self.place()};"

    def change_copy(self):
        name = self.name()
        return f"{{ struct {self.record} {name} = {self.place()}; " \
               f"{name}.last ^= {self.value()}; {self.place()} = {name}; }}"

    def copy_part(self):
        share = self.number(1, 3)
        return f"memmove(&{self.place()}, &{self.place()}, sizeof(struct {self.record}) / {share});"

    def copy_bytes(self):
        count = self.one_of([str(self.one_of([1, 7, 16, 33, 64, 100, 256, 2000])),
                             "next(random) % 300"])
        call = self.one_of(["memmove", "__builtin_memmove", "bcopy"])
        one, other = (f"m->bytes + {self.index('kBytes', 2048)}" for _ in range(2))
        return f"{call}({one}, {other}, {count});"

    def set_bytes(self):
        count = self.one_of([str(self.one_of([3, 16, 65, 200, 1000])), "next(random) % 300"])
        return f"memset(m->bytes + {self.index('kBytes', 1024)}, (int)({self.value()} & 255), " \
               f"{count});"

    def blob(self):
        place, other = (f"m->blobs[{self.index('kBlobs')}]" for _ in range(2))
        return self.one_of([
            f"{place} = make_blob({self.value()});",
            f"swap_in({place}, &{other});",
            f"{{ struct Blob whole = {{{{{self.value()}, 1, at}}}}; {place} = whole; }}",
            f"store_all(&m->words[{self.index('kWords', 8)}], 4, at, (u64)1, (u64)(at * 5), "
            f"(u64)({self.value()}));",
            f"count_down(&m->words[{self.index('kWords', 40)}], {self.number(1, 30)});"])

    def variable_array(self):
        if self.in_coroutine:
            return self.local_array()
        name, bytes_ = self.name(), self.number(10, 90)
        return f"{{ u8 {name}[1 + next(random) % {bytes_}]; " \
               f"for (u64 i = 0; i < sizeof {name}; ++i) {name}[i] = (u8)(at + i); " \
               f"memcpy(m->bytes + {self.index('kBytes', 128)}, {name}, sizeof {name}); " \
               f"{self.word()} ^= {name}[sizeof {name} / 2]; }}"

    def local_array(self):
        name = self.name()
        return f"{{ u64 {name}[16]; for (u64 i = 0; i < 16; ++i) {name}[i] = next(random); " \
               f"{self.place()}.last = {name}[next(random) % 16]; }}"

    # --- which place is known when it is run

    def chosen(self):
        return f"{{ u64* p = {self.value()} % 2 ? &{self.place()}.last : &{self.word()}; " \
               f"*p ^= {self.value()}; }}"

    def chosen_local(self):
        name = self.name()
        return f"{{ u64 {name} = 5; u64* p = {self.value()} % 2 ? &{name} : &{self.word()}; " \
               f"*p += {self.value()}; {self.place()}.last ^= {name}; }}"

    def chosen_static(self):
        name = self.name()
        return f"{{ static u64 {name}[4]; u64* p = {name}; if ({self.value()} % 3) " \
               f"p = &m->words[{self.index('kWords', 4)}]; p[0] = at; p[3] = at + 1; }}"

    def walking(self):
        name = self.name()
        return f"{{ u64 {name}[8] = {{0}}; u64* p = {name}; for (u64 i = 0; i < " \
               f"{self.number(2, 9)}; ++i) {{ *p += i; p = (at >> i) & 1 ? &{self.word()} : " \
               f"&{name}[i % 8]; }} }}"

    def by_pointer(self):
        return f"{{ void (*call)(u64*) = {self.value()} % 2 ? add_seven : shift_left; " \
               f"call(&{self.word()}); }}"

    # --- loops

    def counted(self):
        step, most = self.number(1, 10), self.number(2, 60)
        return f"{{ u64* p = &m->words[{self.index('kWords', step * most)}]; const u64 n = " \
               f"{self.some(most)}; for (u64 i = 0; i < n; ++i) p[{step} * i] += i; }}"

    def backward(self):
        most = self.number(2, 90)
        return self.one_of([
            f"{{ u32* p = &m->ints[{self.index('kInts', most)}]; for (u64 i = {self.some(most)}; "
            f"i-- > 0;) p[i] ^= (u32)(i * at); }}",
            f"{{ u16* p = &m->shorts[{self.index('kShorts', most + 1)}]; for (int i = (int)("
            f"{self.some(most)}); i >= 0; i -= {self.number(1, 3)}) p[i] = (u16)(i + (int)at); }}"])

    def wrapping(self):
        count = self.number(1, 200)
        start = self.number(100, 255)
        return self.one_of([
            f"{{ u8* p = &m->bytes[{self.index('kBytes', 256)}]; for (u8 i = {start}; i != "
            f"{(start + count) % 256}; ++i) p[i] = (u8)(p[i] * 3 + 1); }}",
            f"{{ u64* p = &m->words[{self.index('kWords', 64)}]; for (u32 i = 0xfffffff0u; i != "
            f"{self.number(1, 40)}u; ++i) p[(u32)(i + 16u)] = i; }}",
            f"{{ u32* p = &m->ints[{self.index('kInts', 256)}]; u8 i = (u8)at; do p[i] += 1; "
            f"while ((i += {self.one_of([3, 5, 64, 128])}) != (u8)at && p[i] % 7 != 0); }}"])

    def converting(self):
        most = self.number(8, 200)
        arrays = ["bytes", "shorts", "ints", "words", "floats", "doubles"]
        one, other = self.random.sample(arrays, 2)
        limit = {"floats": ("float", "kFloats"), "doubles": ("double", "kDoubles"), **WIDTHS}
        kind = limit[one][0]
        value = "q[i] * 3 + 1"
        if one not in ("floats", "doubles") and other in ("floats", "doubles"):
            value = "q[i] > 50"
        return f"{{ {kind}* p = &m->{one}[{self.index(limit[one][1], most)}]; " \
               f"{limit[other][0]}* q = &m->{other}[{self.index(limit[other][1], most)}]; " \
               f"const u64 n = {self.some(most)}; for (u64 i = 0; i < n; ++i) " \
               f"p[i] = ({kind})({value}); }}"

    def masked(self):
        most = self.number(8, 120)
        array = self.one_of(["ints", "words"])
        kind, limit = WIDTHS[array]
        return f"{{ {kind}* p = &m->{array}[{self.index(limit, most)}]; const {kind}* q = " \
               f"&m->{array}[{self.index(limit, most)}]; const u64 n = {self.some(most)}; " \
               f"for (u64 i = 0; i < n; ++i) if (q[i] {self.one_of(['& 1', '== 0', '> 5'])}) " \
               f"p[i] = q[i] + {self.number(1, 9)}; }}"

    def scattered(self):
        most = self.number(4, 60)
        return f"{{ u32* p = &m->ints[{self.index('kInts', 256)}]; const u8* q = " \
               f"&m->bytes[{self.index('kBytes', most)}]; for (u64 i = 0; i < {self.some(most)}; " \
               f"++i) p[q[i]] += (u32)i; }}"

    def left_early(self):
        most = self.number(4, 60)
        return f"{{ u64* p = &m->words[{self.index('kWords', most + 2)}]; for (u64 i = 0; i < " \
               f"{most}; ++i) {{ p[i] += i; if (p[i] % {self.number(2, 9)} == 1) break; " \
               f"p[i + 1] ^= at; }} }}"

    def by_iterator(self):
        most = self.number(2, 60)
        return f"{{ u64* p = &m->words[{self.index('kWords', most)}]; u64* end = p + " \
               f"{self.some(most)}; while (p != end) *p++ = at; }}"

    def nested_loops(self):
        rows, columns = self.number(1, 9), self.number(1, 20)
        stride = columns + self.number(0, 30)
        return f"{{ u64* p = &m->words[{self.index('kWords', rows * stride)}]; for (u64 i = 0; " \
               f"i < {rows}; ++i) for (u64 j = 0; j < {self.some(columns)}; ++j) " \
               f"p[i * {stride} + j] += i ^ j; }}"

    def over_records(self):
        return f"for (u64 i = 0, first = {self.index(f'COUNT({self.record})', 8)}; i < " \
               f"{self.some(8)}; ++i) r[first + i].{self.one_of(self.scalars)} = (u8)i;"

    def over_odds(self):
        most = self.number(2, 40)
        return f"{{ struct Odd* p = &m->odds[{self.index('kOdds', most)}]; for (u64 i = 0; i < " \
               f"{self.some(most)}; ++i) {{ p[i].b = i; p[i].{self.one_of(['c', 'd', 'e'])} = " \
               f"(u8)i & 15; }} }}"

    def pausing_loop(self):
        most = self.number(2, 12)
        return f"{{ u64* p = &m->words[{self.index('kWords', 9 * most + 9)}]; for (u64 i = 0; " \
               f"i < {self.some(most)}; ++i) {{ p[9 * i] += at; p[9 * i + 8] = i; " \
               f"{self.one_of(['drawn_pause();', 'if (i == 3) drawn_pause();'])} " \
               f"p[9 * i + 1] ^= i; p[0] += 1; }} }}"

    def around_pause(self):
        offset = self.number(0, 8)
        return f"{{ u64* p = &m->words[{self.index('kWords', 16)}]; p[0] = at; p[{offset}] += 1; " \
               f"{self.one_of(['', 'if (at % 3 == 0) '])}drawn_pause(); p[{offset}] ^= at; " \
               f"p[1] = next(random); }}"

    # --- with others inside

    def conditional(self, depth):
        return f"if ({self.value()} % {self.number(2, 5)}) {{ {self.draw(depth)} }} " \
               f"else {{ {self.draw(depth)} }}"

    def repeated(self, depth):
        name = self.name()
        return f"for (u64 {name} = 0; {name} < {self.number(1, 5)}; ++{name}) " \
               f"{{ {self.draw(depth)} {self.word()} += {name}; }}"

    def switched(self, depth):
        cases = " ".join(f"case {index}: {self.draw(depth)} {self.one_of(['break;', ''])}"
                         for index in range(self.number(2, 5)))
        return f"switch ({self.value()} % 7) {{ {cases} default: {self.scalar()} }}"

    def backward_goto(self, depth):
        name = self.name()
        return f"{{ u64 {name} = 0; again_{name}: {self.draw(depth)} " \
               f"if (++{name} < {self.number(2, 4)}) goto again_{name}; }}"

    def jumping(self, depth):
        if self.in_coroutine:
            return self.repeated(depth)
        name = self.name()
        return f"{{ jmp_buf {name}; volatile int {name}_times = 0; setjmp({name}); " \
               f"{self.draw(depth)} {self.word()} ^= 5; " \
               f"if (({name}_times = {name}_times + 1) < 3) longjmp({name}, 1); }}"

    SIMPLE = [scalar, scalar, element, bit_field, odd, vector, lane, element_of_width, atomic,
              atomic, assembler, assembler_output, assembler_of_many,
              blind_assembler, nontemporal, from_number, string, swap, pause,
              copy_record, change_copy, copy_part, copy_bytes, set_bytes, blob, blob,
              variable_array, local_array, chosen, chosen_local, chosen_static, walking,
              by_pointer, counted, backward, wrapping, converting, converting, masked, scattered,
              left_early, by_iterator, nested_loops, over_records, over_odds, pausing_loop,
              around_pause]
    NESTING = [conditional, repeated, switched, backward_goto, jumping]

    def draw(self, depth=0):
        if depth < 2 and self.random.random() < 0.25:
            return self.one_of(self.nesting())(self, depth + 1)
        return self.one_of(self.simple())(self)

    def simple(self):
        return self.SIMPLE

    def nesting(self):
        return self.NESTING


class StatementsOfCpp(Statements):
    """What only C++ has."""

    def atomic_reference(self):
        order = self.one_of(["relaxed", "acq_rel", "seq_cst"])
        return f"std::atomic_ref({self.place()}.last).fetch_add({self.value()}, " \
               f"std::memory_order_{order});"

    def algorithm(self):
        most = self.number(2, 60)
        first = f"&m->words[{self.index('kWords', most)}]"
        return f"{{ u64* p = {first}; u64* end = p + {self.some(most)}; " + self.one_of([
            "std::sort(p, end);", "std::reverse(p, end);", "std::fill(p, end, at);",
            "if (p != end) std::rotate(p, p + 1, end);",
            "for (u64& each : std::initializer_list<u64>{1, 2}.size() ? *(u64(*)[2])p : "
            "*(u64(*)[2])p) each ^= at;" if most > 2 else "std::fill(p, end, 1);",
            "std::transform(p, end, p, [&](u64 each) { return each * 3 + at; });"]) + " }"

    def placed(self):
        return f"new (&m->blobs[{self.index('kBlobs')}]) Blob(make_blob({self.value()}));"

    def object(self):
        kind = self.one_of(["Round", "Named"])
        return f"{{ auto* p = new (m->scratch + {self.number(0, 63)} * 128) " \
               f"{kind}({self.value()} % 99); {kind} local(at % 7); " \
               f"Shape* chosen = {self.value()} % 2 ? (Shape*)p : &local; " \
               f"chosen->change(&{self.word()}, {self.value()}); {self.word()} += chosen->count; " \
               f"p->~{kind}(); }}"

    def copied_object(self):
        return f"{{ Round local({self.value()} % 99); auto* p = new (m->scratch + " \
               f"{self.number(0, 63)} * 128) Round(local); *p = local; " \
               f"p->Shape::change(&{self.word()}, p->radius[1]); }}"

    def lambda_(self, depth):
        name = self.name()
        return f"{{ auto {name} = [&](u64 given) {{ {self.draw(depth)} " \
               f"{self.word()} ^= given; }}; {name}({self.value()}); {name}(2); }}"

    def kept_lambda(self, depth):
        name = self.name()
        return f"{{ u64 {name}_count = 0; auto {name} = [=, count = at]() mutable {{ " \
               f"{self.word()} += ++count; }}; auto* p = new (m->scratch + " \
               f"{self.number(0, 63)} * 128) decltype({name})({name}); (*p)(); (*p)(); " \
               f"{self.draw(depth)} }}"

    def caught(self, depth):
        return f"try {{ {self.draw(depth)} if ({self.value()} % 3 == 0) throw Thrown{{at}}; " \
               f"{self.place()}.last += 1; }} catch (const Thrown& thrown) {{ " \
               f"{self.place()}.last += thrown.value + 5; {self.draw(depth)} }}"

    def unwound(self, depth):
        name = self.name()
        return f"try {{ AtEnd {name}{{&{self.word()}, {self.value()}}}; {self.draw(depth)} " \
               f"if ({self.value()} % 2) throw Thrown{{1}}; {self.draw(depth)} }} " \
               f"catch (...) {{ {self.word()} += 3; }}"

    def simple(self):
        return self.SIMPLE + [StatementsOfCpp.atomic_reference, StatementsOfCpp.algorithm,
                              StatementsOfCpp.placed, StatementsOfCpp.object,
                              StatementsOfCpp.copied_object]

    def nesting(self):
        return self.NESTING + [StatementsOfCpp.lambda_, StatementsOfCpp.kept_lambda,
                               StatementsOfCpp.caught, StatementsOfCpp.unwound]


class Function:
    def __init__(self, name, kind, storage, statements):
        self.name, self.kind, self.storage, self.statements = name, kind, storage, statements

    def text(self, record, left_out):
        kept = [each for each in self.statements if each not in left_out]
        parameters = PARAMETERS.format(record=record)
        body = "\n  ".join(each[1] for each in kept)
        start = f"static {self.storage}void {self.name}({parameters})"
        if self.kind == "thread" and "std::" in self.storage_of_threads:
            return f"{start} {{\n  std::thread([&] {{\n  {body}\n  }}).join();\n}}\n"
        if self.kind == "thread":
            return self.thread_of_c(start, parameters, body, record)
        if self.kind == "coroutine":
            return self.coroutine(parameters, kept)
        if self.kind == "recursion":
            return f"{start} {{\n  {body}\n  if ((at & 3) == 1 && at > 8) " \
                   f"{self.name}(r, m, at >> 3, random);\n  m->words[at % kWords] += 1;\n}}\n"
        if self.kind == "throws":
            return f"{start} {{\n  {body}\n  if (at % 3 == 0) throw Thrown{{at}};\n" \
                   f"  m->words[at % kWords] += 1;\n}}\n"
        return f"{start} {{\n  {body}\n}}\n"

    storage_of_threads = "std::"

    def thread_of_c(self, start, parameters, body, record):
        name = self.name
        return f"struct {name}_given {{ struct {record}* r; struct Arrays* m; u64 at; " \
               f"u64* random; }};\n" \
               f"static void {name}_body({parameters}) {{\n  {body}\n}}\n" \
               f"static void* {name}_start(void* given) {{\n" \
               f"  struct {name}_given* all = (struct {name}_given*)given;\n" \
               f"  {name}_body(all->r, all->m, all->at, all->random);\n  return 0;\n}}\n" \
               f"{start} {{\n  struct {name}_given given = {{r, m, at, random}};\n" \
               f"  pthread_t thread;\n  pthread_create(&thread, 0, {name}_start, &given);\n" \
               f"  pthread_join(thread, 0);\n}}\n"

    def coroutine(self, parameters, kept):
        body = "\n  co_yield at;\n  ".join(each[1] for each in kept)
        return f"static Numbers {self.name}_numbers({parameters}) {{\n  u64 kept[9] = {{at}};\n" \
               f"  {body}\n  kept[at % 9] += 1;\n  co_yield kept[at % 9];\n" \
               f"  m->words[at % kWords] += kept[0];\n}}\n" \
               f"static {self.storage}void {self.name}({parameters}) {{\n" \
               f"  frames = at % 2 ? m->scratch + 16384 : nullptr;\n" \
               f"  const Numbers numbers = {self.name}_numbers(r, m, at, random);\n" \
               f"  while (!numbers.handle.done()) {{\n    numbers.handle.resume();\n" \
               f"    m->words[next(random) % kWords] ^= numbers.handle.promise().value;\n  }}\n" \
               f"  numbers.handle.destroy();\n  frames = nullptr;\n}}\n"


class FunctionOfC(Function):
    storage_of_threads = "pthread"


class Program:
    """In "c" or "c++"."""

    def __init__(self, seed, language):
        self.seed = seed
        draws = StatementsOfCpp(seed, language) if language == "c++" else Statements(seed, language)
        self.record = draws.record
        self.declarations = draws.draw_record()
        kinds = ["plain"] * 5 + ["recursion", "thread"]
        if language == "c++":
            kinds += ["coroutine", "throws"]
        made = Function if language == "c++" else FunctionOfC
        self.functions = []
        for number in range(draws.number(2, 4)):
            kind = draws.one_of(kinds)
            draws.in_coroutine = kind == "coroutine"
            statements = [(f"{number}.{index}", draws.draw())
                          for index in range(draws.number(2, 5))]
            storage = draws.one_of(["", "__attribute__((noinline)) ", "inline "])
            self.functions.append(made(f"change_{seed}_{number}", kind, storage, statements))

    def statements(self):
        return [each for function in self.functions for each in function.statements]

    def text(self, left_out=()):
        left_out = set(left_out)
        functions = "\n".join(each.text(self.record, left_out) for each in self.functions)
        cases = "".join(f"    case {index}: {self.call(each)} break;\n"
                        for index, each in enumerate(self.functions))
        return f"{self.declarations}\n{functions}\n" \
               f"static void run_{self.seed}(void* records, struct Arrays* m, u64 steps, " \
               f"u64 seed) {{\n  struct {self.record}* r = (struct {self.record}*)records;\n" \
               f"  u64 state = seed;\n  u64* random = &state;\n" \
               f"  for (u64 step = 0; step < steps; ++step) {{\n" \
               f"    const u64 at = next(random) >> 20;\n" \
               f"    switch ((next(random) >> 33) % {len(self.functions)}) {{\n{cases}    }}\n" \
               f"  }}\n}}\n"

    def call(self, function):
        call = f"{function.name}({ARGUMENTS});"
        if function.kind == "thread":
            return f"if (at % 4 == 0) {call}"
        if function.kind == "throws":
            return f"try {{ {call} }} catch (const Thrown& thrown) {{ " \
                   f"m->words[thrown.value % kWords] += 1; }}"
        return call


def unit(programs, language, left_out=()):
    """The source of several programs."""
    header = "memory.hpp" if language == "c++" else "memory.h"
    texts = "\n".join(each.text(left_out) for each in programs)
    table = ",\n".join(f"    {{{each.seed}, sizeof(struct {each.record}), run_{each.seed}}}"
                       for each in programs)
    linkage = 'extern "C" ' if language == "c++" else ""
    return f'#include "drawn/{header}"\n\n' \
           f"#define COUNT(record) (kRecordBytes / sizeof(struct record))\n\n{texts}\n" \
           f"{linkage}const struct DrawnProgram drawn_programs[] = {{\n{table}}};\n" \
           f"{linkage}const size_t drawn_programs_count = {len(programs)};\n"
