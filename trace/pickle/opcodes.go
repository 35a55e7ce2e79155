package pickle

import "fmt"

// The opcodes that plain data needs, of protocols 0 to 5 (CPython Lib/pickletools.py lists them with their arguments).
const (
	opProto         = 0x80
	opFrame         = 0x95
	opStop          = '.'
	opMark          = '('
	opPop           = '0'
	opPopMark       = '1'
	opNone          = 'N'
	opNewTrue       = 0x88
	opNewFalse      = 0x89
	opInt           = 'I'
	opLong          = 'L'
	opFloat         = 'F'
	opString        = 'S'
	opUnicode       = 'V'
	opBinInt        = 'J'
	opBinInt1       = 'K'
	opBinInt2       = 'M'
	opLong1         = 0x8a
	opLong4         = 0x8b
	opBinFloat      = 'G'
	opShortUnicode  = 0x8c
	opBinUnicode    = 'X'
	opBinUnicode8   = 0x8d
	opEmptyDict     = '}'
	opDict          = 'd'
	opSetItem       = 's'
	opSetItems      = 'u'
	opEmptyList     = ']'
	opList          = 'l'
	opAppend        = 'a'
	opAppends       = 'e'
	opEmptyTuple    = ')'
	opTuple         = 't'
	opTuple1        = 0x85
	opTuple2        = 0x86
	opTuple3        = 0x87
	opPut           = 'p'
	opBinPut        = 'q'
	opLongBinPut    = 'r'
	opMemoize       = 0x94
	opGet           = 'g'
	opBinGet        = 'h'
	opLongBinGet    = 'j'
	highestProtocol = 5
	maxIntegerBytes = 9 // 64 bits and a sign byte
)

// opNames names every opcode of protocols 0 to 5, also the refused ones, for messages.
var opNames = map[byte]string{
	opProto: "PROTO", opFrame: "FRAME", opStop: "STOP", opMark: "MARK", opPop: "POP", opPopMark: "POP_MARK", opNone: "NONE",
	opNewTrue: "NEWTRUE", opNewFalse: "NEWFALSE", opInt: "INT", opLong: "LONG", opFloat: "FLOAT", opString: "STRING",
	opUnicode: "UNICODE", opBinInt: "BININT", opBinInt1: "BININT1", opBinInt2: "BININT2", opLong1: "LONG1", opLong4: "LONG4",
	opBinFloat: "BINFLOAT", opShortUnicode: "SHORT_BINUNICODE", opBinUnicode: "BINUNICODE", opBinUnicode8: "BINUNICODE8",
	opEmptyDict: "EMPTY_DICT", opDict: "DICT", opSetItem: "SETITEM", opSetItems: "SETITEMS", opEmptyList: "EMPTY_LIST",
	opList: "LIST", opAppend: "APPEND", opAppends: "APPENDS", opEmptyTuple: "EMPTY_TUPLE", opTuple: "TUPLE",
	opTuple1: "TUPLE1", opTuple2: "TUPLE2", opTuple3: "TUPLE3", opPut: "PUT", opBinPut: "BINPUT", opLongBinPut: "LONG_BINPUT",
	opMemoize: "MEMOIZE", opGet: "GET", opBinGet: "BINGET", opLongBinGet: "LONG_BINGET",
	'c': "GLOBAL", 0x93: "STACK_GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ",
	0x92: "NEWOBJ_EX", 'P': "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", '2': "DUP",
	'T': "BINSTRING", 'U': "SHORT_BINSTRING", 'B': "BINBYTES", 'C': "SHORT_BINBYTES", 0x8e: "BINBYTES8",
	0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// executing are the opcodes that import, call or build objects of classes, or ask the program for them.
var executing = map[byte]bool{
	'c': true, 0x93: true, 'R': true, 'b': true, 'i': true, 'o': true, 0x81: true, 0x92: true,
	'P': true, 'Q': true, 0x82: true, 0x83: true, 0x84: true, 0x97: true, 0x98: true,
}

func opName(op byte) string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("opcode 0x%02x", op)
}

func refusal(op byte) error {
	switch {
	case executing[op]:
		return fmt.Errorf("%w: it would import or run code; a memory snapshot holds plain data only", ErrRefused)
	case opNames[op] != "":
		return fmt.Errorf("%w: no memory snapshot contains it", ErrRefused)
	}
	return malformed("no such opcode: not a pickle, or damaged")
}
