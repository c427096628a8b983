import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { App, Descriptions, Tabs } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../api/client';
import { asProblem } from '../../api/problem';
import { formatCount } from '../../lib/format';
import { useProblemText } from '../../lib/useProblemText';
import { groupCode } from '../ascode';
import { useLocale, useMay, useTopicText } from '../data';
import { groupTabs } from '../search';
import {
  AsCode,
  Badge,
  ConfirmByName,
  Copyable,
  DataTable,
  MayButton,
  Nothing,
  Outcome,
  PageHead,
  Phase,
  Time,
} from '../ui';
import { Accessors } from './access/Accessors';

const route = getRouteApi('/n/$ns/groups/$group');

export function Group() {
  const { t } = useTranslation();
  const { ns, group: name } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({
    queryKey: ['group', ns, name],
    queryFn: ({ signal }) =>
      got(api.GET('/v1/namespaces/{ns}/groups/{group}', { params: { path: { ns, group: name } }, signal })),
    refetchInterval: (q) => (q.state.data?.status.phase === 'pending' ? 2000 : false),
  });
  const seesRules = useMay('acl:read', { ns });
  const tab = search.tab === 'access' && !seesRules ? 'lag' : (search.tab ?? 'lag');
  const views = {
    lag: () => <Lag ns={ns} name={name} />,
    overview: (group: Schemas['Group']) => <Overview group={group} />,
    access: () => <Accessors ns={ns} resource="group" name={name} />,
  };
  return (
    <>
      <PageHead
        title={name}
        tags={query.data && <Badge>{t(`group_order.${query.data.order}`)}</Badge>}
        actions={query.data && <GroupActions group={query.data} />}
      />
      <Outcome query={query}>
        {(group) => (
          <Tabs
            activeKey={tab}
            destroyOnHidden
            onChange={(key) => void navigate({ search: key === 'lag' ? {} : { tab: key as typeof tab } })}
            items={groupTabs
              .filter((key) => key !== 'access' || seesRules)
              .map((key) => ({
                key,
                label: t(`group.tab_${key}`),
                children: key === tab ? views[key](group) : null,
              }))}
          />
        )}
      </Outcome>
    </>
  );
}

function GroupActions({ group }: { group: Schemas['Group'] }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const mayWrite = useMay('group:write', { ns: group.namespace_id, group: group.name });
  const queries = useQueryClient();
  const navigate = route.useNavigate();
  const [deleting, setDeleting] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState<unknown>();
  const path = { ns: group.namespace_id, group: group.name };
  const key = ['group', group.namespace_id, group.name];

  async function toggle() {
    setBusy(true);
    setFailed(undefined);
    try {
      const changed = await got(
        api.PATCH('/v1/namespaces/{ns}/groups/{group}', {
          params: { path, query: { wait: '10s' }, header: { 'If-Match': etag(group) } },
          body: { consume_enabled: !group.consume_enabled },
        }),
      );
      queries.setQueryData(key, changed);
      void message.success(t('state.saved'));
    } catch (err) {
      void queries.invalidateQueries({ queryKey: key });
      setFailed(err);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      {failed !== undefined && <Failed err={failed} />}
      <MayButton may={mayWrite} loading={busy} onClick={toggle}>
        {group.consume_enabled ? t('group.pause') : t('group.resume')}
      </MayButton>
      <MayButton danger may={mayWrite} onClick={() => setDeleting(true)}>
        {t('action.delete')}
      </MayButton>
      <ConfirmByName
        open={deleting}
        title={t('group.delete_title', { name: group.name })}
        text={t('group.delete_text')}
        name={group.name}
        action={t('action.delete')}
        onClose={() => setDeleting(false)}
        run={async () => {
          await got(
            api.DELETE('/v1/namespaces/{ns}/groups/{group}', {
              params: { path, query: { wait: '10s' }, header: { 'If-Match': etag(group) } },
            }),
          );
          void message.success(t('group.deleted', { name: group.name }));
          await queries.invalidateQueries({ queryKey: ['groups', group.namespace_id] });
          void navigate({ to: '/n/$ns/groups', params: { ns: group.namespace_id } });
        }}
      />
    </>
  );
}

function Failed({ err }: { err: unknown }) {
  const problem = asProblem(err);
  const text = useProblemText(problem);
  return (
    <span role="alert" className="bad-text" title={problem.requestId}>
      {text.title}
    </span>
  );
}

/** How far behind, by topic and queue; read again every few seconds while the page is looked at. */
function Lag({ ns, name }: { ns: string; name: string }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const topicText = useTopicText();
  const query = useQuery({
    queryKey: ['lag', ns, name],
    queryFn: ({ signal }) =>
      got(api.GET('/v1/namespaces/{ns}/groups/{group}/lag', { params: { path: { ns, group: name } }, signal })),
    refetchInterval: 5000,
  });
  return (
    <Outcome query={query}>
      {(lag) => (
        <>
          <p>
            <strong className="figure" data-testid="lag">
              {formatCount(lag.lag, locale)}
            </strong>{' '}
            {t('group.behind')}{' '}
            <span className="muted">
              {t('group.as_of')} <Time at={lag.as_of} />
            </span>
          </p>
          {lag.topics.length === 0 ? (
            <Nothing text={t('group.no_topics')} />
          ) : (
            lag.topics.map((topic) => (
              <section key={topic.topic} aria-label={topicText(topic.topic)} className="gap">
                <h2>
                  <Link to="/n/$ns/topics/$topic" params={{ ns, topic: topic.topic }} title={topic.topic}>
                    {topicText(topic.topic)}
                  </Link>{' '}
                  <span className="muted">{formatCount(topic.lag, locale)}</span>
                </h2>
                <DataTable<Schemas['QueueLag']>
                  label={topicText(topic.topic)}
                  rowKey="queue"
                  size="small"
                  dataSource={topic.queues}
                  pagination={false}
                  columns={[
                    { title: t('message.queue'), align: 'end', dataIndex: 'queue' },
                    { title: t('group.lag'), align: 'end', render: (_, q) => formatCount(q.lag, locale) },
                    {
                      title: t('group.committed'),
                      align: 'end',
                      render: (_, q) =>
                        q.committed_offset === '-1' ? t('group.nothing_committed') : q.committed_offset,
                    },
                    { title: t('group.min_offset'), align: 'end', dataIndex: 'min_offset' },
                    { title: t('group.max_offset'), align: 'end', dataIndex: 'max_offset' },
                    {
                      title: t('group.consumer'),
                      render: (_, q) =>
                        q.consumer_id ? (
                          <code>{q.consumer_id}</code>
                        ) : (
                          <span className="muted">{t('group.unassigned')}</span>
                        ),
                    },
                  ]}
                />
              </section>
            ))
          )}
        </>
      )}
    </Outcome>
  );
}

function Overview({ group }: { group: Schemas['Group'] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  const topicText = useTopicText();
  const dead = group.dead_letter.topic;
  return (
    <>
      <Descriptions
        bordered
        size="small"
        column={{ xs: 1, lg: 2 }}
        items={[
          { key: 'id', label: t('field.id'), children: <Copyable text={group.id} what={t('field.id')} /> },
          { key: 'status', label: t('field.status'), children: <Phase status={group.status} /> },
          { key: 'order', label: t('groups.order'), children: t(`group_order.${group.order}`) },
          {
            key: 'consume',
            label: t('groups.consume'),
            children: group.consume_enabled ? t('state.on') : t('state.off'),
          },
          { key: 'broadcast', label: t('group.broadcast'), children: group.broadcast ? t('state.on') : t('state.off') },
          {
            key: 'attempts',
            label: t('groups.max_attempts'),
            children: group.retry.max_attempts === undefined ? t('state.none') : String(group.retry.max_attempts),
          },
          {
            key: 'delays',
            label: t('group.delays'),
            children: group.retry.delays?.join(' ') || t('state.none'),
          },
          {
            key: 'dead',
            label: t('group.dead_letter'),
            children:
              group.dead_letter.enabled === false ? (
                t('state.off')
              ) : dead ? (
                <span title={dead}>{topicText(dead)}</span>
              ) : (
                t('state.on')
              ),
          },
          { key: 'flight', label: t('group.max_in_flight'), children: formatCount(group.max_in_flight, locale) },
          { key: 'description', label: t('field.description'), children: group.description || t('state.none') },
          { key: 'created', label: t('field.created'), children: <Time at={group.created_at} /> },
          { key: 'updated', label: t('field.updated'), children: <Time at={group.updated_at} /> },
        ]}
      />
      <h2>{t('as_code.show')}</h2>
      <AsCode {...groupCode(group.namespace_id, group)} />
    </>
  );
}
