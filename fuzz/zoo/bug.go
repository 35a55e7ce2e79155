package zoo

// bug is one planted mistake. Each allocator has one bug parameter and asks for it at the place where the real program went
// wrong; none of them asks for the bugs of another.
type bug uint8

// The bugs, by allocator. The table of mutants says what each does and where it was seen.
const (
	none bug = iota

	// caching
	wrapRounding
	wrapClass
	wrapAligned
	alignDownTwice
	grownAsRequested
	headLostInMerge
	growBelowRest
	poolByClassAtFree
	minimumAlignmentSkipped
	restoreKeepsNewer
	countOnlyFrees
	firstOfBin
	splitAtRawSize
	wholeCachedBlock
	directFreeOfUnknown
	lockKeptAfterError
	retryForEver
	staleBinIndex
	limitBeforeCaches
	mergeByRequested
	countAgainstBytes
	untrackAfterReuse

	// streams
	eventGoesWithStream
	destroyedListLost
	headOfLine
	noSearchAfterSync
	streamKeyAliases
	searchIgnoresStream
	wrongStreamRestored

	// tlsf
	shiftOff
	searchOwnList
	tailForgetsOffset
	fitBeforeAlign
	endMinusSize
	counterKeptByReset
	secondMoveToFirstPlace
	assertAssigns
	unlinkOneSide
	resetEmptiesList
	noOwnListSearch
	insertRoundsUp
	requestedSizeAtFree
	freeBytesDrift
	roundWithoutLimit
	reallocWithoutLimit
	tailOfArenaLost
	alignedNotTriedHarder
	threeQuartersWraps

	// buddy
	lastRootLost
	mergeBeyondTop
	mergeKeepsSelf
	baseUnaligned
	splitKeepsSize
	rollBackOneOnly
	metadataTwice
	metadataCounted

	// chunks
	limitRoundedUp
	limitAddedLate
	releaseAtOldLevel
	lastChildNotMerged
	evictSameRoot
	ownerReused
	flushToWrongOwner

	// expandable
	ordinaryRelease
	noRollBackOfMap
	unmapInUse
	mappedBeforeMap
	unmapWithoutRelease
	relativeAddress
)
