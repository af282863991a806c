package main

import "errors"

func (r *report) writeDocument() error { return errors.New("later") }
