package httpapi

import (
	"context"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/catalog"
	"github.com/sluicemq/sluice/tenant"
)

func topicOut(t catalog.Topic) api.Topic {
	return api.Topic{Id: t.ID, NamespaceId: t.NamespaceID, Name: t.Name, Type: api.TopicType(t.Type), Queues: t.Queues, Retention: string(t.Retention),
		MaxMessageBytes: t.MaxMessageBytes, MaxSendTps: int32(t.MaxSendTPS), Perm: api.TopicPerm(t.Perm), Description: t.Description, //nolint:gosec // limited by the contract
		Labels: labels(t.Labels), DeletionProtection: t.DeletionProtection, Status: status(t.Status), CreatedAt: at(t.CreatedAt), UpdatedAt: at(t.UpdatedAt), Revision: t.Revision}
}

// ListTopics lists the topics of a namespace.
func (s *server) ListTopics(gc context.Context, r ListTopicsRequestObject) (ListTopicsResponseObject, error) {
	c, ctx := enter(gc)
	f := catalog.TopicFilter{Prefix: or(r.Params.Prefix, ""), Type: catalog.TopicType(or(r.Params.Type, ""))}
	items, next, err := listed(s, c, r.Params.PageSize, r.Params.PageToken,
		func(p tenant.Page) ([]catalog.Topic, error) {
			return only(p, func(p tenant.Page) ([]catalog.Topic, error) { return s.d.Catalog.Topics(ctx, c.tenantID(), r.Ns, f, p) },
				func(t catalog.Topic) tenant.ID { return t.ID }, func(t catalog.Topic) error { return c.mayTopic(r.Ns, t.Name) })
		},
		func(t catalog.Topic) string { return t.ID }, topicOut)
	if err != nil {
		return nil, err
	}
	return ListTopics200JSONResponse{Items: items, NextPageToken: next}, nil
}

// CreateTopic makes a topic.
func (s *server) CreateTopic(gc context.Context, r CreateTopicRequestObject) (CreateTopicResponseObject, error) {
	c, ctx := enter(gc)
	in := catalog.Topic{Name: r.Body.Name, Type: catalog.TopicType(or(r.Body.Type, "")), Queues: or(r.Body.Queues, 0), Retention: catalog.Duration(or(r.Body.Retention, "")),
		MaxMessageBytes: or(r.Body.MaxMessageBytes, 0), MaxSendTPS: int64(or(r.Body.MaxSendTps, 0)), Perm: string(or(r.Body.Perm, "")),
		Description: or(r.Body.Description, ""), Labels: or(r.Body.Labels, nil), DeletionProtection: isTrue(r.Body.DeletionProtection)}
	if err := c.mayTopic(r.Ns, in.Name); err != nil {
		return nil, err
	}
	if err := s.rulesAllowOne(ctx, c, tenant.ResourceTopic, in.Name, tenant.PermissionManage); err != nil {
		return nil, err
	}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Topic, error) {
		t, err := s.d.Catalog.CreateTopic(ctx, c.tenantID(), r.Ns, in)
		c.touches("topic", t.ID, r.Ns)
		return topicOut(t), err
	})
	if err != nil {
		return nil, err
	}
	if isTrue(r.Params.DryRun) {
		return CreateTopic200JSONResponse(out), nil
	}
	if out, err = s.awaitTopic(ctx, c, out, r.Params.Wait); err != nil {
		return nil, err
	}
	return CreateTopic201JSONResponse{Body: out, Headers: CreateTopic201ResponseHeaders{ETag: etag(out.Revision), Location: "/v1/namespaces/" + r.Ns + "/topics/" + out.Name}}, nil
}

func (s *server) awaitTopic(ctx context.Context, c *call, out api.Topic, wait *string) (api.Topic, error) {
	d := waiting(wait)
	if d == 0 {
		return out, nil
	}
	if err := s.d.Catalog.Wait(ctx, catalog.KindTopic, out.Id, out.Revision, d); err != nil {
		return out, err
	}
	t, err := s.d.Catalog.Topic(ctx, c.tenantID(), out.NamespaceId, out.Name)
	if err != nil {
		return out, err
	}
	return topicOut(t), nil
}

// GetTopic shows one topic.
func (s *server) GetTopic(gc context.Context, r GetTopicRequestObject) (GetTopicResponseObject, error) {
	c, ctx := enter(gc)
	t, err := s.d.Catalog.Topic(ctx, c.tenantID(), r.Ns, r.Topic)
	if err != nil {
		return nil, err
	}
	return GetTopic200JSONResponse{Body: topicOut(t), Headers: GetTopic200ResponseHeaders{ETag: etag(t.Revision)}}, nil
}

// UpdateTopic changes one topic.
func (s *server) UpdateTopic(gc context.Context, r UpdateTopicRequestObject) (UpdateTopicResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	u := catalog.TopicUpdate{Queues: r.Body.Queues, Retention: (*catalog.Duration)(r.Body.Retention), MaxMessageBytes: r.Body.MaxMessageBytes,
		MaxSendTPS: wide(r.Body.MaxSendTps), Perm: (*string)(r.Body.Perm), Description: r.Body.Description, Labels: or(r.Body.Labels, nil),
		DeletionProtection: r.Body.DeletionProtection}
	out, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Topic, error) {
		t, err := s.d.Catalog.UpdateTopic(ctx, c.tenantID(), r.Ns, r.Topic, u, want)
		c.touches("topic", t.ID, r.Ns)
		return topicOut(t), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if out, err = s.awaitTopic(ctx, c, out, r.Params.Wait); err != nil {
			return nil, err
		}
	}
	return UpdateTopic200JSONResponse{Body: out, Headers: UpdateTopic200ResponseHeaders{ETag: etag(out.Revision)}}, nil
}

// DeleteTopic removes one topic.
func (s *server) DeleteTopic(gc context.Context, r DeleteTopicRequestObject) (DeleteTopicResponseObject, error) {
	c, ctx := enter(gc)
	want, err := wanted(r.Params.IfMatch)
	if err != nil {
		return nil, err
	}
	t, err := write(ctx, s, c, r.Params.DryRun, func(ctx context.Context) (api.Topic, error) {
		t, err := s.d.Catalog.DeleteTopic(ctx, c.tenantID(), r.Ns, r.Topic, want)
		c.touches("topic", t.ID, r.Ns)
		return topicOut(t), err
	})
	if err != nil {
		return nil, err
	}
	if !isTrue(r.Params.DryRun) {
		if err := s.d.Catalog.Wait(ctx, catalog.KindTopic, t.Id, t.Revision, waiting(r.Params.Wait)); err != nil {
			return nil, err
		}
	}
	return DeleteTopic204Response{}, nil
}

// BatchGetTopics shows many topics by name.
func (s *server) BatchGetTopics(gc context.Context, r BatchGetTopicsRequestObject) (BatchGetTopicsResponseObject, error) {
	c, ctx := enter(gc)
	found, absent, err := s.d.Catalog.TopicsByName(ctx, c.tenantID(), r.Ns, r.Body.Names)
	if err != nil {
		return nil, err
	}
	out := BatchGetTopics200JSONResponse{Items: []api.Topic{}, Missing: absent}
	for _, t := range found {
		if c.mayTopic(r.Ns, t.Name) != nil {
			out.Missing = append(out.Missing, t.Name)
			continue
		}
		out.Items = append(out.Items, topicOut(t))
	}
	if out.Missing == nil {
		out.Missing = []api.TopicName{}
	}
	return out, nil
}
