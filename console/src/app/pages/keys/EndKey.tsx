import { useQueryClient } from '@tanstack/react-query';
import { App } from 'antd';
import { useTranslation } from 'react-i18next';
import { api, etag, got, type Schemas } from '../../../api/client';
import { ConfirmByName } from '../../ui';

export function RevokeKey({ apiKey, onClose }: { apiKey: Schemas['ApiKey']; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  return (
    <ConfirmByName
      open
      title={t('keys.revoke_one', { name: apiKey.name })}
      text={t('keys.revoke_text')}
      name={apiKey.name}
      action={t('keys.revoke')}
      onClose={onClose}
      run={async () => {
        await got(
          api.POST('/v1/api-keys/{id}/actions/revoke', {
            params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
          }),
        );
        void message.success(t('keys.revoked', { name: apiKey.name }));
        await queries.invalidateQueries({ queryKey: ['keys'] });
      }}
    />
  );
}

export function DeleteKey(props: { apiKey: Schemas['ApiKey']; onClose: () => void; onDone: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const { apiKey } = props;
  return (
    <ConfirmByName
      open
      title={t('keys.delete_one', { name: apiKey.name })}
      text={t('keys.delete_text')}
      name={apiKey.name}
      action={t('action.delete')}
      onClose={props.onClose}
      run={async () => {
        await got(
          api.DELETE('/v1/api-keys/{id}', {
            params: { path: { id: apiKey.id }, query: { wait: '10s' }, header: { 'If-Match': etag(apiKey) } },
          }),
        );
        void message.success(t('keys.deleted', { name: apiKey.name }));
        props.onDone();
        queries.removeQueries({ queryKey: ['keys', 'one', apiKey.id] });
        await queries.invalidateQueries({ queryKey: ['keys'] });
      }}
    />
  );
}
