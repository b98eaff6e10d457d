// What the module for Go's checksum database (golang.org/x/mod: sumdb/note, sumdb/tlog) says of our log, and a log of
// its own for ours to judge. One JSON document in, one out.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type question struct {
	Note, Old, Leaf string
	Index           int64
	Path            []string
}

type asked struct {
	Key       string
	Questions []question
	Leaves    []string
}

type proof struct {
	Old, Size int64
	Path      []string
}

type made struct {
	Key                    string
	Notes                  []string
	Inclusion, Consistency []proof
}

type answer struct {
	Said []string
	Made made
}

// The head of a checkpoint that a key signed.
func open(text, key string) (tree tlog.Tree, err error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return tree, err
	}
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return tree, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() || lines[3] != "" {
		return tree, fmt.Errorf("no checkpoint of this log")
	}
	if tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil {
		return tree, err
	}
	tree.Hash, err = tlog.ParseHash(lines[2])
	return tree, err
}

func hashes(path []string) (found []tlog.Hash, err error) {
	for _, text := range path {
		hash, err := tlog.ParseHash(text)
		if err != nil {
			return nil, err
		}
		found = append(found, hash)
	}
	return found, nil
}

func judge(q question, key string) error {
	head, err := open(q.Note, key)
	if err != nil {
		return err
	}
	path, err := hashes(q.Path)
	if err != nil {
		return err
	}
	if q.Old != "" {
		old, err := open(q.Old, key)
		if err != nil {
			return err
		}
		return tlog.CheckTree(path, head.N, head.Hash, old.N, old.Hash)
	}
	leaf, err := base64.StdEncoding.DecodeString(q.Leaf)
	if err != nil {
		return err
	}
	return tlog.CheckRecord(path, head.N, head.Hash, q.Index, tlog.RecordHash(leaf))
}

func texts(path []tlog.Hash) []string {
	found := []string{}
	for _, hash := range path {
		found = append(found, hash.String())
	}
	return found
}

func grow(leaves []string) (log made, err error) {
	secret, key, err := note.GenerateKey(rand.Reader, "log.example/go")
	if err != nil {
		return log, err
	}
	log.Key = key
	signer, err := note.NewSigner(secret)
	if err != nil {
		return log, err
	}
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(wanted []int64) ([]tlog.Hash, error) {
		found := []tlog.Hash{}
		for _, index := range wanted {
			found = append(found, stored[index])
		}
		return found, nil
	})
	for number, text := range leaves {
		leaf, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return log, err
		}
		more, err := tlog.StoredHashes(int64(number), leaf, reader)
		if err != nil {
			return log, err
		}
		stored = append(stored, more...)
		size := int64(number + 1)
		root, err := tlog.TreeHash(size, reader)
		if err != nil {
			return log, err
		}
		text := fmt.Sprintf("log.example/go\n%d\n%s\n", size, root)
		signed, err := note.Sign(&note.Note{Text: text}, signer)
		if err != nil {
			return log, err
		}
		log.Notes = append(log.Notes, string(signed))
		for old := int64(0); old < size; old++ {
			path, err := tlog.ProveRecord(size, old, reader)
			if err != nil {
				return log, err
			}
			log.Inclusion = append(log.Inclusion, proof{old, size, texts(path)})
		}
		for old := int64(1); old <= size; old++ {
			path, err := tlog.ProveTree(size, old, reader)
			if err != nil {
				return log, err
			}
			log.Consistency = append(log.Consistency, proof{old, size, texts(path)})
		}
	}
	return log, nil
}

func main() {
	var in asked
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		panic(err)
	}
	out := answer{Said: []string{}}
	for _, q := range in.Questions {
		said := ""
		if err := judge(q, in.Key); err != nil {
			said = err.Error()
		}
		out.Said = append(out.Said, said)
	}
	var err error
	if out.Made, err = grow(in.Leaves); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
