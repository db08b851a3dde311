// Calls a service with the client that was generated for Go. Arguments: address, token, store.
package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"openapi/api"
)

func must(holds bool, what string, details ...any) {
	if !holds {
		fmt.Fprintln(os.Stderr, append([]any{what}, details...)...)
		os.Exit(1)
	}
}

func main() {
	ctx, token, store := context.Background(), os.Args[2], os.Args[3]
	authorized := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	client, err := api.NewClientWithResponses(os.Args[1], api.WithRequestEditorFn(authorized))
	must(err == nil, "client", err)

	holder := "go"
	opened, err := client.OpenSessionWithResponse(ctx, nil, api.OpenSessionJSONRequestBody{Ttl: 60, Holder: &holder})
	must(err == nil && opened.JSON201 != nil, "openSession", err)
	session := opened.JSON201.Session

	granted, err := client.CampaignWithResponse(ctx, store, &api.CampaignParams{MilepostSession: session}, api.CampaignJSONRequestBody{})
	must(err == nil && granted.JSON200 != nil && *granted.JSON200.Session == session, "campaign", err)
	epoch := int(granted.JSON200.Epoch)

	labels := `{"batch": "7"}`
	adding := &api.AddAndLockParams{MilepostSession: session, MilepostEpoch: &epoch, MilepostLabels: &labels}
	added, err := client.AddAndLockWithBodyWithResponse(
		ctx, store, "latest", adding, "application/octet-stream", strings.NewReader("batch 7"))
	must(err == nil && added.JSON201 != nil && added.JSON201.Labels["batch"] == "7", "addAndLock", err)

	there, err := client.ExistsWithResponse(ctx, store, "latest", nil)
	tag := there.HTTPResponse.Header.Get("ETag")
	must(err == nil && tag == `"`+added.JSON201.Version+`"`, "exists", err, tag)

	replacing := &api.ReplaceParams{MilepostSession: session, MilepostEpoch: &epoch, IfMatch: tag}
	replaced, err := client.ReplaceWithBodyWithResponse(
		ctx, store, "latest", replacing, "application/octet-stream", bytes.NewReader([]byte("batch 8")))
	must(err == nil && replaced.JSON200 != nil && replaced.JSON200.Version != added.JSON201.Version, "replace", err)
	stale, err := client.ReplaceWithBodyWithResponse(
		ctx, store, "latest", replacing, "application/octet-stream", strings.NewReader("batch 9"))
	must(err == nil && stale.ApplicationproblemJSON412 != nil, "a stale replace", err)
	must(stale.ApplicationproblemJSON412.Type == "urn:milepost:version-mismatch", "its problem")

	state, err := client.ReadStateWithResponse(ctx, store, "latest", nil)
	must(err == nil && string(state.Body) == "batch 8", "readState", err)
	limit := 10
	page, err := client.GetAllHandlesWithResponse(ctx, store, &api.GetAllHandlesParams{Limit: &limit})
	must(err == nil && page.JSON200 != nil && len(page.JSON200.Handles) == 1 && page.JSON200.Next == nil, "getAllHandles", err)
	absent, err := client.GetHandleWithResponse(ctx, store, "absent", nil)
	must(err == nil && absent.ApplicationproblemJSON404.Outcome == api.NotApplied, "getHandle of none", err)

	removing := &api.ReleaseAndTryRemoveParams{MilepostSession: session, MilepostEpoch: &epoch}
	removed, err := client.ReleaseAndTryRemoveWithResponse(ctx, store, "latest", removing)
	must(err == nil && removed.JSON200 != nil && removed.JSON200.Removed, "releaseAndTryRemove", err)
	ended, err := client.EndSessionWithResponse(ctx, session, nil)
	must(err == nil && ended.StatusCode() == 204, "endSession", err)
	fmt.Println("every call of the Go client was answered")
}
