import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';
import { actionText } from './action';

/** What was done, in the user's language. */
export function useActionText(): (action: string) => string {
  const { t, i18n } = useTranslation();
  return useCallback(
    (action) => actionText(action, (key) => (i18n.exists(key) ? t(key as 'audit_action.signIn') : undefined)),
    [t, i18n],
  );
}

/** What kind of object it was done to. */
export function useObjectText(): (type: string) => string {
  const { t, i18n } = useTranslation();
  return (type) => {
    const key = `audit_noun.${type.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase())}` as 'audit_noun.topic';
    return i18n.exists(key) ? t(key) : type.replaceAll('_', ' ');
  };
}

/** The actions that a filter offers; any other can be typed. */
export function useActionOptions(): { value: string; label: string }[] {
  const text = useActionText();
  return offered.map((value) => ({ value, label: `${text(value)} (${value})` }));
}

const offered = [
  'signIn',
  'changePassword',
  'changeEmail',
  'deleteMe',
  'createInvitation',
  'acceptInvitation',
  'updateMember',
  'removeMember',
  'createRole',
  'updateRole',
  'deleteRole',
  'createRoleBinding',
  'updateRoleBinding',
  'deleteRoleBinding',
  'createServiceAccount',
  'updateServiceAccount',
  'deleteServiceAccount',
  'createWorkloadIdentity',
  'updateWorkloadIdentity',
  'deleteWorkloadIdentity',
  'createIdentityProvider',
  'updateIdentityProvider',
  'deleteIdentityProvider',
  'updateTenant',
  'createApiKey',
  'updateApiKey',
  'rotateApiKey',
  'revokeApiKey',
  'deleteApiKey',
  'createAcl',
  'updateAcl',
  'deleteAcl',
  'createNamespace',
  'deleteNamespace',
  'createTopic',
  'updateTopic',
  'deleteTopic',
  'createGroup',
  'updateGroup',
  'deleteGroup',
  'connect',
  'publish',
  'subscribe',
  'manage',
  'describe',
  'suspendTenant',
  'resumeTenant',
];
