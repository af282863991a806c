package headers

import "encoding/json"

// ProblemContentType is the media type of Problem (RFC 9457).
const ProblemContentType = "application/problem+json"

// problem is the body that names the violated policies, in the form of
// draft-ietf-httpapi-ratelimit-headers.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies"`
}

// Problem renders the body of a refusal by the named policies.
func Problem(violated []string) []byte {
	body, err := json.Marshal(problem{
		Type:     "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:    "Request cannot be satisfied as assigned quota has been exceeded",
		Status:   429,
		Violated: violated,
	})
	if err != nil { // strings and an int always marshal
		return nil
	}
	return body
}
